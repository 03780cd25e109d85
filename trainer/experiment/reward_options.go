package experiment

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/answers"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/rewards/judge"
	"github.com/darkroom-rl/darkroom/rewards/neural"
	"github.com/darkroom-rl/darkroom/trainer/config"
)

// Tables within [[reward]] that belong to some rewards alone.

// RewardOptions are these tables. One that is not written is nil: the reward's defaults.
type RewardOptions struct {
	Rule   string         `toml:"rule" of:"accuracy,tools,format,length" doc:"of accuracy, tools, format and length: darkroom list rules; empty: the first"`
	Frames string         `toml:"frames" of:"layout,geneval,scene,background,shade,ocr,clip,aesthetic,pickscore,hpsv2,hpsv3,imagereward,jpeg,sharpness" doc:"of a clip: mean of its frames; worst, its least frame; best:0.3, the mean of that share of them; empty: mean, of ocr as its formula says"`
	Every  int            `toml:"frames_every" range:"[0,1e6]" of:"layout,geneval,scene,background,shade,ocr,clip,aesthetic,pickscore,hpsv2,hpsv3,imagereward,jpeg,sharpness" doc:"of a clip, one frame in this many is judged; 0: all, of ocr as ocr.interval says"`
	OCR    *OCROptions    `toml:"ocr" of:"ocr" doc:"of reward ocr: whose formula, and how Tesseract reads"`
	Layout *LayoutOptions `toml:"layout" of:"layout" doc:"of reward layout: what pairs of boxes are worth"`
	Motion *MotionOptions `toml:"motion" of:"motion,heading,magnitude,dynamic,flicker,smooth,warp" doc:"of rewards of clips: how their flow is found; not written, heading takes farneback on all frames"`
	Video  *VideoOptions  `toml:"videoreward" of:"videoreward" doc:"of reward videoreward: which axis counts, and whether colours do"`
	Judge  *JudgeOptions  `toml:"judge" of:"judge" doc:"of reward judge: what a model is asked, and how it is called"`

	Rules map[string]string `toml:"rules" of:"accuracy,length,tools" doc:"a rule by the prompt's meta.domain (of verl's rows, their data_source), in place of rule, which the others go by where it is written: { chart = \"relaxed\", math = \"boxed\" }"`

	JPEG       *rewards.JPEGOptions     `toml:"jpeg" of:"jpeg" doc:"of reward jpeg: whether large or small files are good"`
	Likeness   *rewards.LikenessOptions `toml:"likeness" of:"likeness" doc:"of reward likeness: what of a picture is compared with what it was made of"`
	Preserve   *rewards.PreserveOptions `toml:"preserve" of:"preserve" doc:"of reward preserve: how a picture is compared with what it was made of"`
	GenEval    *rewards.GenEvalRules    `toml:"geneval" of:"geneval" doc:"of reward geneval: which boxes count, and what the reward is"`
	Detector   *rewards.DetectorOptions `toml:"detector" of:"layout,geneval" doc:"of layout and geneval: how the detector at url writes boxes"`
	Repetition *answers.Repetition      `toml:"repetition" of:"repetition" doc:"of reward repetition: what counts as repeated, and what it costs"`
	Length     *answers.CosineLength    `toml:"length" of:"length" doc:"of reward length: what long and short replies are worth"`
	MiniO3     *answers.MiniO3          `toml:"mini_o3" of:"mini_o3" doc:"of reward mini_o3: what its parts are worth"`
}

// OCROptions are of reward ocr.
type OCROptions struct {
	rewards.OCRRule
	Language string `toml:"language" doc:"of Tesseract: eng, chi_sim ..."`
	Page     int    `toml:"page" range:"[0,13]" doc:"Tesseract's page segmentation mode; 0: 6, a block of text"`
}

// SetDefaults is flow_grpo's formula.
func (o *OCROptions) SetDefaults() {
	*o = OCROptions{OCRRule: rewards.OCRRule{Formula: "flow_grpo", Interval: 4}, Language: "eng"}
}

// LayoutOptions are of reward layout.
type LayoutOptions struct{ boxes.Matching }

// SetDefaults is the IoU, boxes too many cost.
func (o *LayoutOptions) SetDefaults() {
	*o = LayoutOptions{boxes.Matching{Score: "iou", DivideBy: "max"}}
}

// MotionOptions are of motion, magnitude, dynamic, flicker, smooth and warp.
type MotionOptions struct {
	Method    string  `toml:"method" enum:"dis,farneback,opencv" doc:"optical flow: the quick one, the steady one, or that one by OpenCV (in programs built with -tags gocv)"`
	PerSecond float64 `toml:"per_second" range:"[0,1000]" doc:"frames that are looked at; 0 is all"`
}

// SetDefaults is VBench's.
func (o *MotionOptions) SetDefaults() {
	*o = MotionOptions{Method: rewards.UsualMotion.Method, PerSecond: rewards.UsualMotion.PerSecond}
}

// VideoOptions are of reward videoreward.
type VideoOptions struct {
	Axis string `toml:"axis" enum:"overall,vq,mq,ta" doc:"visual quality, motion quality, alignment with the prompt, or the sum of all"`
	Gray bool   `toml:"gray" doc:"clips are judged without colours, which motion quality can be bought with (GenRL)"`
}

// SetDefaults is VideoAlign's sum.
func (o *VideoOptions) SetDefaults() { *o = VideoOptions{Axis: "overall"} }

// JudgeOptions are of reward judge.
type JudgeOptions struct {
	Form        string   `toml:"form" enum:"flow_grpo,mixgrpo,mixgrpo_semantic,unified,edit_quality,edit_following,edit_pairwise,editscore,edit_r1,think,flex,vqascore,deepeyes_visual,deepeyes_reasoning,deepeyes_math,vrag,question" doc:"what is asked, and how the answer is read; think, flex and edit_pairwise compare the samples of a prompt, edit_following, edit_pairwise, editscore and edit_r1 see what it was made of, vqascore is the chance of a yes and needs a folder; deepeyes_* and vrag judge replies; question is your own"`
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

	Flex judge.Flex `toml:"flex"`
}

// SetDefaults is flow_grpo's judge.
func (o *JudgeOptions) SetDefaults() {
	*o = JudgeOptions{Form: "flow_grpo", Read: "one", Pictures: "own", Flex: judge.Flex{Overall: 1, Dimensions: 1}}
}

// Compares reports whether the judge compares the samples of a prompt.
func (o *JudgeOptions) Compares() bool {
	return o.Form == "think" || o.Form == "flex" || o.Form == "edit_pairwise"
}

// nameless reports whether the form was published without a model's name.
func (o *JudgeOptions) nameless() bool {
	return o.Form == "question" || o.Form == "vrag" || o.Form == "editscore" || o.Form == "edit_r1" || strings.HasPrefix(o.Form, "deepeyes")
}

// Filled is what is written, or else the defaults.
func Filled[T any, P interface {
	*T
	SetDefaults()
}](written *T) T {
	if written != nil {
		return *written
	}
	var v T
	P(&v).SetDefaults()
	return v
}

// check finds what the decoder cannot know. key is what stands before the names of keys.
func (r *Reward) check(key string, report report) {
	if r.Name != "" && !r.checkOwn(key, report) {
		return
	}
	checkRule(key+"rule", r.Rule, r.Name, report)
	for _, domain := range slices.Sorted(maps.Keys(r.Rules)) {
		checkRule(key+"rules."+domain, r.Rules[domain], r.Name, report)
	}
	if _, err := rewards.ParseFrames(r.Frames); err != nil {
		report(key+"frames", err.Error(), `frames = "mean", "worst" or "best:0.3"`)
	}
	if r.OCR != nil && r.Path == "" && (r.OCR.Language != "eng" || r.OCR.Page != 0) {
		report(key+"ocr", "language and page are Tesseract's, and the built-in reader reads", `write path = "tesseract"`)
	}
	if j := r.Judge; j != nil && j.BothOrders && !j.Compares() {
		report(key+"judge.both_orders", fmt.Sprintf("form %q marks pictures one by one: there is no order", j.Form), `form = "think", "flex" or "edit_pairwise" compares`)
	}
	if j := r.Judge; j != nil && j.Rounds > 0 && j.Form != "think" && j.Form != "edit_pairwise" {
		report(key+"judge.rounds", fmt.Sprintf("form %q holds no tournament", j.Form), `form = "think" does`)
	}
	if r.Name == "judge" {
		r.checkJudge(key, report)
	}
	switch {
	case r.Name == "geneval" && r.URL == "":
		report(key+"name", "reward geneval needs a detector behind a server", `for example url = "http://localhost:8080/detect"`)
	case r.Detector != nil && r.URL == "":
		report(key+"detector", "there is no detector that writes boxes: embedded scenes have one of their own", `write its url, or leave detector out`)
	}
	if r.Length != nil {
		r.Length.Check(func(k, problem, hint string) { report(key+"length."+k, problem, hint) })
	}
	if kind, _ := RewardNamed(r.Name); r.Path == "" && kind.Weights && kind.toy == "" {
		report(key+"name", fmt.Sprintf("reward %q needs the folder of its weights", r.Name), `for example path = "models/`+r.Name+`"`)
	}
	if _, err := neural.ScalingNamed(r.Scaling); err != nil {
		report(key+"scaling", fmt.Sprintf("no scaling is called %q", r.Scaling), "see darkroom list scalings")
	}
}

// checkRule refuses a rule's name that there is not.
func checkRule(key, rule, of string, report report) {
	if _, ok := answers.Find(rule, of == "format"); ok || rule == "" {
		return
	}
	names := answers.Names(of == "format")
	hint := "it is one of " + strings.Join(names, ", ")
	if near := config.Near(rule, names); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	report(key, fmt.Sprintf("no rule of %s is called %q", of, rule), hint)
}

// checkJudge finds what a judge cannot be.
func (r *Reward) checkJudge(key string, report report) {
	o := Filled(r.Judge)
	checkRule(key+"judge.first", o.First, r.Name, report)
	switch {
	case r.Path != "" && r.URL != "":
		report(key+"path", "the judge is a server (url) and a folder (path)", "leave out one of them")
	case o.Form == "vqascore" && r.URL != "":
		report(key+"judge.form", "a server does not tell how likely its answers are", `write path = "FOLDER" in place of url`)
	case r.Path != "" && o.Temperature != nil && *o.Temperature > 0:
		report(key+"judge.temperature", "a folder answers with what is likeliest, so that a picture's score stays the same", "leave it out")
	case o.Form == "question" && o.Question == "":
		report(key+"judge.question", "there is no question", `for example question = "Question: {prompt}\nRight: {truth}\nAnswer: {answer}\nSay 1 if it is right, else 0."`)
	case o.Form == "question" && unknownBlank(o.Question) != "":
		word := unknownBlank(o.Question)
		hint := "the blanks are {" + strings.Join(judge.Words(), "}, {") + "}"
		if near := config.Near(word, judge.Words()); near != "" {
			hint = fmt.Sprintf("did you mean {%s}?", near)
		}
		report(key+"judge.question", fmt.Sprintf("{%s} is no blank, and the model would read it as it stands", word), hint)
	case o.Model == "" && r.URL != "" && o.nameless():
		report(key+"judge.model", fmt.Sprintf("form %q has no model of its own, and a server wants a name", o.Form), `for example model = "Qwen/Qwen2.5-72B-Instruct"`)
	case o.Form != "question" && (o.First != "" || o.Looks):
		report(key+"judge.form", fmt.Sprintf("form %q asks as it was published: first and looks are of your own question", o.Form), `write form = "question"`)
	case o.Form != "question" && o.Question != "":
		report(key+"judge.question", fmt.Sprintf("form %q has a question of its own", o.Form), `write form = "question"`)
	}
}

var blanks = regexp.MustCompile(`\{([A-Za-z_]+)\}`)

// unknownBlank is the first word in braces that nothing is put in for.
func unknownBlank(question string) string {
	for _, m := range blanks.FindAllStringSubmatch(question, -1) {
		if !slices.Contains(judge.Words(), m[1]) {
			return m[1]
		}
	}
	return ""
}

// checkOwn refuses keys of other rewards: what the tag of a key does not name. It reports whether there are none.
func (r *Reward) checkOwn(key string, report report) bool {
	var unset Reward
	unset.SetDefaults()
	usual := map[string]config.Key{}
	for _, k := range config.Keys(&unset) {
		usual[k.Path] = k
	}
	for _, k := range config.Keys(r) {
		if was := usual[k.Path]; k.Absent == was.Absent && k.Default == was.Default || OwnsKey(r.Name, k.Path) {
			continue
		}
		report(key+k.Path, fmt.Sprintf("%q is not of reward %q", k.Path, r.Name), "it is of "+strings.ReplaceAll(k.Of, ",", ", "))
		return false
	}
	return true
}

// OwnsKey reports whether a key, such as "ocr.formula", means something to a reward.
func OwnsKey(reward, key string) bool {
	first, _, _ := strings.Cut(strings.TrimSpace(key), ".")
	for _, k := range config.Keys(&Reward{}) {
		if k.Path == first && k.Of != "" {
			return slices.Contains(strings.Split(k.Of, ","), reward)
		}
	}
	return true
}

// ParseReward is a reward as a command line has it: its name, and assignments as --set takes
// them, "ocr.formula=strict". The error holds every mistake.
func ParseReward(name string, sets []string) (Reward, error) {
	doc := config.Parse("reward "+name, nil)
	for _, s := range sets {
		doc.Set(s)
	}
	r := Reward{}
	r.SetDefaults()
	r.Name = name
	doc.Decode("", &r)
	if r.Name != name {
		doc.Report("name", "a reward is named by --reward", "")
	}
	r.check("", doc.Report)
	return r, doc.Err()
}

// Judges are what the reward judges as it is written: a judge's form decides.
func (r Reward) Judges() []string {
	if r.Name != "judge" {
		return Judges(r.Name)
	}
	switch o := Filled(r.Judge); {
	case o.Form == "question":
		return Judges(r.Name)
	case o.Form == "vrag", strings.HasPrefix(o.Form, "deepeyes"):
		return []string{"replies"}
	}
	return []string{"pictures", "clips"}
}
