package judge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/answers"
	"github.com/darkroom-rl/darkroom/rewards/call"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// A Form is a question for a judge, and the reading of its answer. Its value is in the file of its formula; Forms lists
// all.
type Form struct {
	Name   string
	Card   string // a sentence: its question and its origin
	Judges rewards.Subjects

	Edits    bool // it sees the pictures that a sample was made of
	Truth    bool // it needs meta.answer
	Pref     bool // a server is called as Pref-GRPO's is, and else as Flow-GRPO's
	Nameless bool // it was published without a model's name
	Folder   bool // it needs a folder: servers do not give its probabilities
	Own      bool // the question is the user's
	Server   Server

	// One of these is set.
	Mark *Marking // pictures are marked one by one
	Pair *Pairing // the samples of a prompt are compared
	New  func(o Options, m Model) (rewards.Reward, error)
}

// A Server is how a form was published to ask one; nothing: as Flow-GRPO does.
type Server struct {
	Model, System string         // the model's name, and the message of the system
	Extra         map[string]any // fields of the request
}

// shown are the samples that models see.
const shown = rewards.Pictures | rewards.Clips

// Forms are all forms; the first is the default.
func Forms() []Form {
	return []Form{
		FlowGRPOForm,
		MixGRPOForm,
		MixGRPOSemanticForm,
		UnifiedForm,
		EditQualityForm,
		EditFollowingForm,
		EditPairwiseForm,
		EditScoreForm,
		EditR1Form,
		ThinkForm,
		FlexForm,
		VQAScoreForm,
		DeepEyesVisualForm,
		DeepEyesReasoningForm,
		DeepEyesMathForm,
		VRAGForm,
		HunyuanTranslationForm,
		HunyuanVQAForm,
		QuestionForm,
	}
}

// FormNamed is the form of a name.
func FormNamed(name string) (Form, bool) {
	all := Forms()
	i := slices.IndexFunc(all, func(f Form) bool { return f.Name == name })
	if i < 0 {
		return Form{}, false
	}
	return all[i], true
}

// Options are of reward judge.
type Options struct {
	Form        string   `toml:"form" enum:"flow_grpo,mixgrpo,mixgrpo_semantic,unified,edit_quality,edit_following,edit_pairwise,editscore,edit_r1,think,flex,vqascore,deepeyes_visual,deepeyes_reasoning,deepeyes_math,vrag,hunyuan_translation,hunyuan_vqa,question" doc:"what is asked, and how the answer is read; think, flex and edit_pairwise compare the samples of a prompt, edit_following, edit_pairwise, editscore and edit_r1 see what it was made of, vqascore is the chance of a yes and needs a folder; deepeyes_*, vrag and hunyuan_* judge replies; question is your own"`
	Question    string   `toml:"question" doc:"of form question: its text; {prompt}, {truth} (meta.answer), {answer} and {conversation} are put in"`
	First       string   `toml:"first" doc:"of form question: a rule for replies (darkroom list rules) that is asked before the model; what it calls right is 1, and costs no call"`
	Looks       bool     `toml:"looks" doc:"of form question: the pictures of a conversation are shown, in their order"`
	Read        string   `toml:"read" enum:"one,true,judge,score,final" doc:"of form question, what the model must say: 1 or 0; TRUE or FALSE; <judge>True</judge>; <Score>4</Score> of 5; Final Score: 4 of 5"`
	Model       string   `toml:"model" doc:"as the server knows it; empty: the form's own"`
	Temperature *float64 `toml:"temperature" range:"[0,10]" doc:"of answers; not written: the form's own"`
	Template    string   `toml:"template" doc:"the form of conversations, of a folder (path) that does not say it, as model.template"`
	MaxTokens   int      `toml:"max_tokens" range:"[0,1e6]" doc:"of an answer; 0: the form's own"`
	Side        *int     `toml:"side" range:"[0,8192]" doc:"pictures are stretched to a square of this side, 0: as they are; not written: the form's own"`
	Pictures    string   `toml:"pictures" enum:"own,png,jpeg" doc:"how pictures are sent; own: as the form does"`
	BothOrders  bool     `toml:"both_orders" doc:"think, flex: every pair is asked about twice, exchanged"`
	Rounds      int      `toml:"rounds" range:"[0,1000]" doc:"think, edit_pairwise: rounds of a Swiss tournament, in each of which a sample meets one other; 0: every sample meets every other"`
	Tries       int      `toml:"tries" range:"[0,100]" doc:"calls before an answer is missing; 0: the form's own"`
	AtOnce      int      `toml:"at_once" range:"[0,1024]" doc:"calls beside each other; 0: the form's own"`

	Flex Flex `toml:"flex"`
}

// SetDefaults is flow_grpo's judge.
func (o *Options) SetDefaults() {
	*o = Options{Form: "flow_grpo", Read: "one", Pictures: "own", Flex: Flex{Overall: 1, Dimensions: 1}}
}

// JudgeKey is the table of Options.
type JudgeKey struct {
	Judge *Options `toml:"judge" doc:"of reward judge: what a model is asked, and how it is called"`
}

type judgeKeys struct {
	rewards.NetworkKeys
	rewards.ServerKeys
	JudgeKey
}

// options are the written ones, or the defaults, with the form.
func (k judgeKeys) options() (Options, Form) {
	o := config.Filled(k.Judge)
	f, _ := FormNamed(o.Form)
	return o, f
}

// JudgeKind is reward judge: a model behind an OpenAI-compatible server (url), or in a folder (path).
var JudgeKind = rewards.Kind{
	Name:     "judge",
	Card:     "A vision-language model's opinion, over an OpenAI-compatible API or from a local folder.",
	Paper:    "each form's (judge.form)",
	Cases:    []string{"judge.parse_point", "judge.parse_axes_batch", "judge.parse_edit_point", "judge.win_rate_think", "judge.win_rate_flex", "judge.win_rate_edit", "judge.request_flow_grpo", "judge.request_pref_grpo", "judge.request_text", "vlm.judge_parse_vrag", "vlm.reward_deepeyes", "vlm.reward_deepeyes_math"},
	Judges:   rewards.Everything,
	Traits:   rewards.Prompted,
	Options:  judgeKeys{},
	Check:    rewards.Checks(judgeKeys.check),
	CheckRun: rewards.Checks(judgeKeys.checkRun),
	Subject: rewards.With(func(k judgeKeys) rewards.Subjects {
		_, f := k.options()
		return f.Judges
	}),
	Needs: rewards.With(func(k judgeKeys) rewards.Need {
		switch o, f := k.options(); {
		case f.Edits:
			return rewards.Sourced
		case f.Truth, f.Own && strings.Contains(o.Question, "{truth}"):
			return func(p rewards.Prompt) error { _, err := p.Meta.Texts("answer"); return err }
		}
		return nil
	}),
	Open: rewards.Opens(judgeKeys.open),
}

// check refuses options that exclude each other.
func (k judgeKeys) check(report rewards.Report) {
	o, f := k.options()
	if o.BothOrders && f.Pair == nil {
		report("judge.both_orders", fmt.Sprintf("form %q marks pictures one by one: there is no order", o.Form), `form = "think", "flex" or "edit_pairwise" compares`)
	}
	if o.Rounds > 0 && (f.Pair == nil || f.Pair.Read == nil) {
		report("judge.rounds", fmt.Sprintf("form %q holds no tournament", o.Form), `form = "think" does`)
	}
	answers.CheckRule("judge.first", o.First, "judge", report)
	switch {
	case k.Path != "" && k.URL != "":
		report("path", "the judge is a server (url) and a folder (path)", "leave out one of them")
	case f.Folder && k.URL != "":
		report("judge.form", "a server does not tell how likely its answers are", `write path = "FOLDER" in place of url`)
	case k.Path != "" && o.Temperature != nil && *o.Temperature > 0:
		report("judge.temperature", "a folder answers with what is likeliest, so that a picture's score stays the same", "leave it out")
	case f.Own && o.Question == "":
		report("judge.question", "there is no question", `for example question = "Question: {prompt}\nRight: {truth}\nAnswer: {answer}\nSay 1 if it is right, else 0."`)
	case f.Own && unknownBlank(o.Question) != "":
		word := unknownBlank(o.Question)
		hint := "the blanks are {" + strings.Join(Words(), "}, {") + "}"
		if near := config.Near(word, Words()); near != "" {
			hint = fmt.Sprintf("did you mean {%s}?", near)
		}
		report("judge.question", fmt.Sprintf("{%s} is no blank, and the model would read it as it stands", word), hint)
	case o.Model == "" && k.URL != "" && f.Nameless:
		report("judge.model", fmt.Sprintf("form %q has no model of its own, and a server wants a name", o.Form), `for example model = "Qwen/Qwen2.5-72B-Instruct"`)
	case !f.Own && (o.First != "" || o.Looks):
		report("judge.form", fmt.Sprintf("form %q asks as it was published: first and looks are of your own question", o.Form), `write form = "question"`)
	case !f.Own && o.Question != "":
		report("judge.question", fmt.Sprintf("form %q has a question of its own", o.Form), `write form = "question"`)
	}
}

// checkRun asks for a model, and for a question that shows the reply.
func (k judgeKeys) checkRun(run rewards.Run) {
	o, f := k.options()
	unseen := f.Own && o.Question != "" && !strings.Contains(o.Question, "{answer}") && !strings.Contains(o.Question, "{conversation}")
	if unseen && slices.Contains(run.Makes, "replies") {
		run.Report("judge.question", "it has neither {answer} nor {conversation}, so that the judge would not see the reply", "put {answer} where the reply is to stand")
	}
	if k.URL == "" && k.Path == "" {
		run.Report("name", "a judge needs a url, of an OpenAI-compatible server, or a path, of a Qwen-VL model's folder", `for example url = "http://localhost:8000/v1"`)
	}
}

var blanks = regexp.MustCompile(`\{([A-Za-z_]+)\}`)

// unknownBlank is the first word in braces that nothing is put in for.
func unknownBlank(question string) string {
	for _, m := range blanks.FindAllStringSubmatch(question, -1) {
		if !slices.Contains(Words(), m[1]) {
			return m[1]
		}
	}
	return ""
}

// A Model answers in words, and tells how likely answers are: Chat and vlm.Answerer do.
type Model interface {
	Completer
	Teller
}

// open is the judge on its model.
func (k judgeKeys) open(b rewards.Bench) (rewards.Opened, error) {
	o, f := k.options()
	if k.Path != "" {
		return k.openFolder(b, o, f)
	}
	key, err := k.Secret()
	if err != nil {
		return rewards.Opened{}, err
	}
	switch {
	case k.URL == "":
		return rewards.Opened{}, errors.New("url or path is missing: an OpenAI-compatible server, or a Qwen-VL model's folder")
	case f.Folder:
		return rewards.Opened{}, fmt.Errorf("form %s needs path: a server does not tell how likely its answers are", f.Name)
	}
	chat := o.chat(f, k.URL, key, b)
	j, err := f.judge(o, chat, chat.Caller.Policy().AtOnce)
	return rewards.Opened{Judge: j}, err
}

// openFolder is the judge on a folder of Qwen-VL's.
func (k judgeKeys) openFolder(b rewards.Bench, o Options, f Form) (rewards.Opened, error) {
	dir, d, err := k.Place(b)
	if err != nil {
		return rewards.Opened{}, err
	}
	a, err := vlm.OpenAnswerer(dir, d, o.Template)
	if err != nil {
		return rewards.Opened{}, err
	}
	if a.Side = o.chat(f, "", "", rewards.Bench{Policy: b.Policy}).Send.Side; f.Folder && o.Side == nil {
		a.Side = 0
	}
	a.System = f.Server.System
	if o.MaxTokens > 0 {
		a.Most = o.MaxTokens
	}
	j, err := f.judge(o, a, 1)
	if err != nil {
		return rewards.Opened{}, errors.Join(err, a.Close())
	}
	return rewards.Opened{Judge: j, Close: a.Close}, nil
}

// judge is the form's, on a model.
func (f Form) judge(o Options, m Model, atOnce int) (rewards.Judge, error) {
	switch {
	case f.Pair != nil:
		return Pairwise{Model: m, Form: f.Name, Flex: o.Flex, BothOrders: o.BothOrders, AtOnce: atOnce, Rounds: o.Rounds}, nil
	case f.Mark != nil:
		return rewards.Each(f.Mark.by(m), atOnce), nil
	case f.New == nil:
		return nil, fmt.Errorf("no judge asks in the form %q", o.Form)
	}
	r, err := f.New(o, m)
	return rewards.Each(r, atOnce), err
}

// chat is the server that a judge asks.
func (o Options) chat(f Form, url, key string, b rewards.Bench) Chat {
	p, own := b.Policy, FlowGRPO
	if f.Pref {
		pref := PrefPolicy()
		pref.Timeout = p.Timeout
		p, own = pref, PrefGRPO
	}
	if o.Tries > 0 {
		p.Tries = o.Tries
	}
	if o.AtOnce > 0 {
		p.AtOnce = o.AtOnce
	}
	if p.Timeout <= 0 {
		p.Timeout = time.Minute
	}
	c := own(url, call.NewCaller(p, b.Cache))
	c.Key, c.System = key, f.Server.System
	if f.Server.Model != "" {
		c.Model = f.Server.Model
	}
	maps.Copy(c.Extra, f.Server.Extra)
	if o.Model != "" {
		c.Model = o.Model
	}
	if o.Temperature != nil {
		delete(c.Extra, "do_sample")
		c.Extra["temperature"] = *o.Temperature
	}
	if o.MaxTokens > 0 {
		c.Extra["max_tokens"] = o.MaxTokens
	}
	if o.Side != nil {
		c.Send.Side = *o.Side
	}
	switch o.Pictures {
	case "png":
		c.Send.PNG, c.Send.Kind = true, "image/png"
	case "jpeg":
		c.Send.PNG, c.Send.Kind = false, "image/jpeg"
	}
	return c
}

// Completer is a model that answers questions about pictures: Chat is one.
type Completer interface {
	Complete(ctx context.Context, pictures []*vision.Image, text string) (string, error)
}

var errNoPicture = errors.New("there is no picture for the judge")

// frames is how many of a clip a judge is shown.
const frames = 8

func picturesOf(item rewards.Item) ([]*vision.Image, error) {
	if item.Image != nil {
		return []*vision.Image{item.Image}, nil
	}
	if item.Clip == nil {
		return nil, errNoPicture
	}
	few, err := item.Clip.Pick(video.Uniform(len(item.Clip.Frames), frames))
	if err != nil {
		return nil, err
	}
	var out []*vision.Image
	for _, px := range few.Frames {
		out = append(out, &vision.Image{Width: few.Width, Height: few.Height, Pix: px})
	}
	return out, nil
}
