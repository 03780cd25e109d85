package experiment

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/vision/tools"
	"github.com/darkroom-rl/darkroom/vision/tools/program"
)

// The meaning of [episode].

// checkEpisode looks at its tables where its values are right.
func (e *Experiment) checkEpisode(doc *config.Document) {
	p := e.Episode
	if p == nil || !doc.Clean("episode") {
		return
	}
	e.checkServed(doc.Report)
	e.checkEngine(doc.Report)
	if p.Overlong != nil {
		p.Overlong.Check(under("episode.overlong", doc.Report))
	}
	p.Clips.check(doc.Report)
	p.Sampling.Check(under("episode.sampling", doc.Report))
	if n := p.Noisy; n != nil && doc.Clean("rollout") {
		if seen := n.Of(e.Rollout.Group); seen < 1 || seen >= e.Rollout.Group {
			doc.Report("episode.noisy.share", fmt.Sprintf("of a group of %d, %d see distorted pictures: some must, and some must not", e.Rollout.Group, seen), "0.5 of a group of 12 is published")
		}
	}
	if doc.Clean("rollout") {
		e.checkShuffled(doc.Report)
		e.checkGuided(doc.Report)
		e.checkStems(doc.Report)
	}
	protocol, err := tools.Named(p.Protocol)
	if err != nil {
		doc.Report("episode.protocol", err.Error(), "")
		return
	}
	switch r := under("episode.exec", doc.Report); {
	case p.Exec != nil && !protocol.Code:
		doc.Report("episode.exec", fmt.Sprintf("no tool of %s is a program", p.Protocol), `leave it out, or write protocol = "pyvision"`)
	case p.Exec != nil:
		p.Exec.Check(r)
	case protocol.Code:
		doc.Report("episode.protocol", "a tool of "+p.Protocol+" runs the model's code, and nothing says how: nothing is run that [episode.exec] does not name", "under [episode.exec], "+program.Example)
	}
	if _, err := p.Play(); err != nil {
		doc.Report("episode.tools", err.Error(), "leave it out: all tools of the protocol may be called then")
	}
	if protocol.In == nil && p.Frame != "shown" {
		doc.Report("episode.frame", fmt.Sprintf("%s's boxes have a frame of their own", p.Protocol), `leave it out, or write protocol = "darkroom"`)
	}
}

// Of is the episode of a prompt: one whose meta.protocol names another protocol than the file has that one's tools, all
// of them, in that one's frame.
func (e *Episode) Of(p prompts.Prompt) (*Episode, error) {
	raw, ok := p.Meta.Get("protocol")
	if !ok {
		return e, nil
	}
	own := *e
	if err := json.Unmarshal(raw, &own.Protocol); err != nil {
		return nil, fmt.Errorf("meta.protocol is %s: the name of a protocol was expected", raw)
	}
	if own.Protocol == e.Protocol {
		return e, nil
	}
	protocol, err := tools.Named(own.Protocol)
	if err != nil {
		return &own, err
	}
	if own.Tools = nil; protocol.In == nil {
		own.Frame = "shown"
	}
	if protocol.Code && own.Exec == nil {
		return nil, fmt.Errorf("meta.protocol is %q, a tool of which runs the model's code, and nothing says how\nhint: under [episode.exec], %s", own.Protocol, program.Example)
	}
	_, err = own.Play()
	return &own, err
}

// Play is the protocol with the tools that may be called.
func (e *Episode) Play() (*tools.Protocol, error) {
	p, err := tools.Named(e.Protocol)
	if err != nil {
		return nil, err
	}
	if p.In != nil {
		p = p.In(tools.Frame(e.Frame))
	}
	p.Strict = e.Exec != nil && e.Exec.Errors == "end"
	for _, s := range e.Served {
		if p.Open { // others have tools of their own, which ask those outside
			p = p.With(s.tool())
		}
	}
	if len(e.Tools) == 0 {
		return p, nil
	}
	var kept []tools.Tool
	for _, name := range e.Tools {
		n := len(kept)
		for _, t := range p.Tools {
			if t.Name == name {
				kept = append(kept, t)
			}
		}
		for _, t := range p.Tools {
			if n == len(kept) && strings.Contains(t.Name, name) {
				kept = append(kept, t)
			}
		}
		if n == len(kept) {
			var all []string
			for _, t := range p.Tools {
				all = append(all, t.Name)
			}
			return nil, fmt.Errorf("%s has no tool %q; it has %s", e.Protocol, name, strings.Join(all, ", "))
		}
	}
	p.Tools = kept
	return p, nil
}

// Instructions are those that a model of such a path reads: episode.system where that is written, else the protocol's
// description of its tools. Embedded models were made without instructions, and get none.
func (e *Episode) Instructions(model string) (tools.Instructions, error) {
	p, err := e.Play()
	switch {
	case err != nil:
		return tools.Instructions{}, err
	case e.System != nil:
		return tools.Instructions{System: *e.System}, nil
	case strings.HasPrefix(model, "embed:"):
		return tools.Instructions{}, nil
	}
	return p.Instructions(), nil
}

// Limits end an episode. Whether tools act before limits are looked at is the protocol's.
func (e *Episode) Limits() tools.Limits {
	l := tools.Limits{Tokens: e.Tokens, Turns: e.Turns, Pictures: e.Pictures}
	if p, err := tools.Named(e.Protocol); err == nil {
		l.ActFirst = p.Limits.ActFirst
	}
	return l
}

// Clips is [episode.clips]: how clips that questions name (meta.clip) are read.
type Clips struct {
	FPS   float64 `toml:"fps" range:"[0,240]" doc:"frames that are read a second; 0: count of each clip"`
	Count int     `toml:"count" range:"[0,4096]" doc:"frames that are read of each clip, where fps is 0"`
	Min   int     `toml:"min" range:"[1,4096]" doc:"frames that fps reads of a clip, at least"`
	Max   int     `toml:"max" range:"[1,4096]" doc:"and at most"`
	Least int     `toml:"least_pixels" range:"[0,1e9]" doc:"of a frame (of the whole clip for Qwen3-VL and Qwen3.5), to which clips are resized; 0: as the model's video_preprocessor_config.json has it"`
	Most  int     `toml:"most_pixels" range:"[0,1e9]" doc:"and the most"`
}

// SetDefaults is transformers' of Qwen's clips.
func (c *Clips) SetDefaults() { *c = Clips{FPS: 2, Min: 4, Max: 768} }

func (c *Clips) check(r report) {
	switch {
	case c == nil:
	case c.FPS == 0 && c.Count == 0:
		r("episode.clips.fps", "no frame of a clip is read", "fps = 2, or count = 16")
	case c.FPS > 0 && c.Count > 0:
		r("episode.clips.count", fmt.Sprintf("fps = %v says how many frames are read", c.FPS), "leave it out, or write fps = 0")
	case c.Min > c.Max:
		r("episode.clips.min", fmt.Sprintf("at least %d frames, and at most %d", c.Min, c.Max), "write a smaller one")
	case c.Most > 0 && c.Least > c.Most:
		r("episode.clips.least_pixels", fmt.Sprintf("at least %d pixels, and at most %d", c.Least, c.Most), "write a smaller one")
	}
}

// Options of NoisyRollout: part of a group sees distorted pictures. The formulas are where pictures are distorted.

// Noisy is [episode.noisy].
type Noisy struct {
	Share    float64 `toml:"share" range:"(0,1)" doc:"of a group: these see distorted pictures, and learn from the clean ones"`
	Strength int     `toml:"strength" range:"[1,999]" doc:"step of the noise, of 1000, where it is not annealed yet"`
	Schedule string  `toml:"schedule" enum:"none,linear,pow,exp,sigmoid" doc:"how the noise is annealed over the run's iterations"`
	Coef     float64 `toml:"coef" range:"(0,1e6)" doc:"of pow, exp and sigmoid"`
	Middle   float64 `toml:"middle" range:"[0,1e9]" doc:"of sigmoid: the iteration that has half the strength"`
	Old      string  `toml:"old" enum:"clean,rolled" doc:"what ratios compare with: log-probabilities of the same tokens on the clean picture, as published, or those that they were drawn with"`
}

// SetDefaults has the values of the code's scripts.
func (n *Noisy) SetDefaults() {
	*n = Noisy{Share: 0.5, Strength: 500, Schedule: "sigmoid", Coef: 30, Middle: 40, Old: "clean"}
}

// Of is how many of a group see distorted pictures: its last ones.
func (n Noisy) Of(group int) int { return int(math.Round(n.Share * float64(group))) }

// Options of T-GRPO: part of a group sees its clip with shuffled frames. The rule is where totals are made.

// Shuffled is [episode.shuffled].
type Shuffled struct {
	Share  float64 `toml:"share" range:"(0,1)" doc:"of a group: these see the clip's frames in a drawn order, and nothing is learned from them; of a prompt without a clip all are learned from"`
	Bonus  float64 `toml:"bonus" range:"[0,1e6]" doc:"what a right answer's total gets beside, where the group needed the order of the frames"`
	Least  float64 `toml:"least" range:"[0,1e6]" doc:"the group needed the order where the mean score of those that saw it is at least this many times the mean of the others"`
	Right  float64 `toml:"right" range:"[-1e6,1e6]" doc:"an answer is right where its score lies above this"`
	Reward string  `toml:"reward" doc:"the reward, by its label, whose scores are compared; empty: the first that is trained on"`
}

// SetDefaults has the code's values: eight samples that are learned from, and four beside them.
func (s *Shuffled) SetDefaults() {
	*s = Shuffled{Share: 1. / 3, Bonus: 0.3, Least: 0.8, Right: 0.1}
}

// Of is how many of a group see shuffled frames: its last ones.
func (s Shuffled) Of(group int) int { return int(math.Round(s.Share * float64(group))) }

// rewardCalled is a reward's label; of "" it is that of the first that is trained on.
func (e *Experiment) rewardCalled(label string) (called string, ok bool) {
	for _, r := range e.Rewards {
		if label == r.Called() || label == "" && r.Train {
			return r.Called(), true
		}
	}
	return "", false
}

// ComparedBy is the reward whose scores [episode.shuffled] compares, by its label.
func (e *Experiment) ComparedBy() string {
	label, _ := e.rewardCalled(e.Episode.Shuffled.Reward)
	return label
}

// checkShuffled: settings that a control needs.
func (e *Experiment) checkShuffled(r report) {
	s := e.Episode.Shuffled
	if s == nil {
		return
	}
	const hint = "leave [episode.shuffled] out"
	seen := s.Of(e.Rollout.Group)
	_, found := e.rewardCalled(s.Reward)
	switch {
	case e.Episode.Noisy != nil:
		r("episode.shuffled|episode.noisy", "both show the last of a group something else", "one of them")
	case e.Episode.Engine != nil:
		r("episode.shuffled", "an engine is shown no clips", "leave it out, or [episode.engine]")
	case e.Rollout.More != nil:
		r("rollout.more|episode.shuffled", "shuffled frames are shown to a part of each group, whose size is fixed", hint)
	case seen < 1 || e.Rollout.Group-seen < 2:
		r("episode.shuffled.share", fmt.Sprintf("of a group of %d, %d see shuffled frames: one must, and two must not", e.Rollout.Group, seen), "0.34 of a group of 12 is published")
	case e.Advantage.EachReward():
		r("episode.shuffled|advantage.estimator", "the bonus belongs to the total, and this estimator compares each reward by itself", hint)
	case !found:
		r("episode.shuffled.reward", fmt.Sprintf("no reward is called %q", s.Reward), "the label of a [[reward]], or its name where it has none")
	}
}

// Options of G2RPO-A: part of a group is given the beginning of the prompt's solution.
// The rule stands in package prompts.

// guidedBy is the reward whose scores say how much is given, by its label.
func (e *Experiment) guidedBy() (label string, ok bool) {
	return e.rewardCalled(e.Episode.Guided.Reward)
}

// GuidedBy is the reward whose scores [episode.guided] follows, by its label.
func (e *Experiment) GuidedBy() string {
	label, _ := e.guidedBy()
	return label
}

// checkGuided: settings that guidance needs.
func (e *Experiment) checkGuided(r report) {
	g := e.Episode.Guided
	if g == nil {
		return
	}
	g.Check(under("episode.guided", r))
	led, others := g.Of(e.Rollout.Group), 0
	if s := e.Episode.Shuffled; s != nil {
		others = s.Of(e.Rollout.Group)
	}
	_, found := e.guidedBy()
	switch {
	case e.Episode.Engine != nil:
		r("episode.guided|episode.engine", "an engine draws answers from their beginning, and says nothing of tokens that it is given", "one of them")
	case led < 1:
		r("episode.guided.share", fmt.Sprintf("of a group of %d, %d are given the beginning of the solution: one must", e.Rollout.Group, led), "0.17 of a group of 12 is published")
	case led+others > e.Rollout.Group:
		r("episode.guided.share|episode.shuffled.share", fmt.Sprintf("%d of a group of %d are given the beginning of the solution, and the last %d see shuffled frames", led, e.Rollout.Group, others), "smaller shares")
	case !found:
		r("episode.guided.reward", fmt.Sprintf("no reward is called %q", g.Reward), "the label of a [[reward]], or its name where it has none")
	}
}

// guidedFact is a plan's sentence about guidance.
func (e *Experiment) guidedFact() Fact {
	g := e.Episode.Guided
	paced := "as many in every iteration"
	if g.Every > 0 {
		paced = fmt.Sprintf("up to %d, more where %s has fallen in the last of %d iterations, and fewer where it has risen", g.Most, e.GuidedBy(), g.Every)
	}
	return Fact{"guidance", fmt.Sprintf("%d of a group of %d are given the first %s of meta.%s, and learn from these as from their own; %s", g.Of(e.Rollout.Group), e.Rollout.Group, count(g.Tokens, "token"), g.Key, paced)}
}

// Options of Tree-GRPO: the episodes of a group grow on trees, whose branches part where a turn ends.

// Stems is [episode.tree].
type Stems struct {
	Trees  int `toml:"trees" range:"[1,1e6]" doc:"of a prompt; each begins with an episode of its own"`
	Expand int `toml:"expand" range:"[1,1e6]" doc:"branches that a tree gets in a round: each goes on from the question or from the end of a drawn turn after which an episode of the tree went on"`
	Rounds int `toml:"rounds" range:"[1,1e6]" doc:"of branches; those of a later round may part from those of an earlier one"`
}

// SetDefaults has the scripts' values.
func (s *Stems) SetDefaults() { *s = Stems{Trees: 2, Expand: 2, Rounds: 1} }

// Size is how many episodes a tree has.
func (s Stems) Size() int { return 1 + s.Expand*s.Rounds }

// Of is the tree of a sample of a group, and the round that it is played in: 0 is that of the first episode.
func (s Stems) Of(sample int) (tree, round int) {
	return sample / s.Size(), (sample%s.Size() + s.Expand - 1) / s.Expand
}

// compareStems are the estimators that can compare a tree as they compare a group.
var compareStems = []string{"group", "dr", "leave-one-out"}

// checkStems: settings that trees need.
func (e *Experiment) checkStems(r report) {
	s, p := e.Episode.Tree, e.Episode
	if s == nil {
		return
	}
	switch group := s.Trees * s.Size(); {
	case e.Rollout.Group != group:
		r("rollout.group|episode.tree", fmt.Sprintf("%d trees of %d episodes are %d samples of a prompt, and rollout.group is %d", s.Trees, s.Size(), group, e.Rollout.Group), fmt.Sprintf("group = %d: trees x (1 + expand x rounds)", group))
	case p.Engine != nil:
		r("episode.tree|episode.engine", "an engine draws answers from their beginning, and a branch begins with turns that are there", "one of them")
	case p.Exec != nil || len(p.Served) > 0:
		r("episode.tree", "a branch plays the turns before it again, and code and tools outside may answer otherwise then", "leave it out, or [episode.exec] and [[episode.tool]]")
	case p.Noisy != nil || p.Shuffled != nil || p.Guided != nil:
		r("episode.tree|episode.noisy|episode.shuffled|episode.guided", "part of a group begins in another way, and the branches of a tree begin alike", "leave [episode.tree] out")
	case e.Rollout.More != nil:
		r("rollout.more|episode.tree", "the samples of a prompt are the branches of its trees, whose number is fixed", "leave rollout.more out")
	case e.Advantage.Over == "batch":
		r("advantage.over|episode.tree", "a tree is compared as a group is, and rewards are compared over the batch", `over = "group"`)
	case e.Advantage.Keep != nil:
		r("advantage.keep|episode.tree", "other samples may be kept of a tree than of its prompt's", "leave advantage.keep out")
	case !slices.Contains(compareStems, e.Advantage.Estimator):
		r("advantage.estimator|episode.tree", fmt.Sprintf("estimator %q does not compare the episodes of a tree", e.Advantage.Estimator), `estimator = "group", "dr" or "leave-one-out"`)
	}
}

// fact is a plan's sentence about the trees.
func (s Stems) fact() Fact {
	branches := "a branch"
	if s.Expand != 1 {
		branches = fmt.Sprintf("%d branches", s.Expand)
	}
	return Fact{"trees", fmt.Sprintf("%s a prompt, each an episode and %s in %s; a branch plays the turns before it again, which costs what it cost to draw them", count(s.Trees, "tree"), branches, count(s.Rounds, "round"))}
}

// Served is one [[episode.tool]]: a tool behind a server, or a program.
// trainer/conversations/toolserver has its protocol.
type Served struct {
	Name    string   `toml:"name,required" doc:"as the model calls it: search"`
	About   string   `toml:"about" doc:"what it does, for the model: protocol darkroom tells it, with the name and the parameters"`
	Schema  string   `toml:"parameters" doc:"JSON schema of its arguments, for the model; empty: any object"`
	URL     string   `toml:"url" doc:"where calls are POSTed: {version, tool, arguments} in, {text, images} or {error} out"`
	Command []string `toml:"command" doc:"a program in its place, with its arguments: a call is a line of JSON that it reads, {n, version, tool, arguments}, and its answer a line that it writes, with the same n; it is kept, and started anew where it fails"`
	Env     []string `toml:"env" doc:"names of environment variables that the program is given beside what every program needs"`
	KeyEnv  string   `toml:"key_env" doc:"name of the environment variable that holds the key"`
	Timeout float64  `toml:"timeout" range:"(0,inf)" doc:"seconds for one answer"`
	Tries   int      `toml:"tries" range:"[1,100]" doc:"calls before the episode is missing"`
	AtOnce  int      `toml:"at_once" range:"[1,1024]" doc:"calls beside each other, and copies of a program; no bit depends on it"`
	State   bool     `toml:"state" doc:"an environment: it gets a request as an episode begins and ends, and returns its reward at the end, which reward environment reads; its answers are not kept"`
	Cache   bool     `toml:"cache" doc:"answers are kept by tool and arguments, beside what else may be computed again, so that the same call has the same answer in every run; false for a tool that has a state"`
}

// SetDefaults has a tool's defaults.
func (s *Served) SetDefaults() { *s = Served{Timeout: 60, Tries: 4, AtOnce: 8, Cache: true} }

// Place is the tool's address, for publication: a server's address without keys, or a program without its arguments.
func (s Served) Place() string {
	if len(s.Command) > 0 {
		return filepath.Base(s.Command[0])
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return "a server"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// tool is how the model knows it.
func (s Served) tool() tools.Tool {
	t := tools.OutsideTool(s.Name)
	t.About, t.Parameters = s.About, cmp.Or(s.Schema, `{"type": "object"}`)
	return t
}

// isObject is whether a text is a JSON object.
func isObject(text string) bool {
	var all map[string]any
	return json.Unmarshal([]byte(text), &all) == nil
}

// checkServed looks at the tools behind servers.
func (e *Experiment) checkServed(r report) {
	protocol, err := tools.Named(e.Episode.Protocol)
	if err != nil {
		return // episode.protocol is reported
	}
	var names []string
	for i, s := range e.Episode.Served {
		key := fmt.Sprintf("episode.tool[%d].", i)
		switch {
		case !protocol.Open && !slices.Contains(protocol.Outside, s.Name):
			hint := `protocol = "darkroom"`
			if len(protocol.Outside) > 0 {
				hint += ", or one that it asks: " + strings.Join(protocol.Outside, ", ")
			}
			r(key+"name", fmt.Sprintf("%s has the tools that were published with it, and %q is none that it asks", e.Episode.Protocol, s.Name), hint)
		case slices.Contains(names, s.Name):
			r(key+"name", fmt.Sprintf("two tools are called %q", s.Name), "each needs a name of its own")
		case (s.URL == "") == (len(s.Command) == 0):
			r(key+"name", fmt.Sprintf("tool %q is behind one server or one program", s.Name), `url = "http://localhost:8000/search", or command = ["python3", "search.py"]`)
		case len(s.Command) > 0 && s.KeyEnv != "":
			r(key+"key_env", "a key is sent to a server, and a program reads its environment", fmt.Sprintf("env = [%q]", s.KeyEnv))
		case s.Schema != "" && !isObject(s.Schema):
			r(key+"parameters", fmt.Sprintf("%q is no JSON object", s.Schema), `parameters = '{"type": "object", "properties": {"query": {"type": "string"}}}'`)
		case len(s.Command) == 0 && len(s.Env) > 0:
			r(key+"env", "a server has an environment of its own", `leave it out, or command in place of url`)
		case len(s.Command) > 0:
		case !strings.HasPrefix(s.URL, "http://") && !strings.HasPrefix(s.URL, "https://"):
			r(key+"url", fmt.Sprintf("%q is no address of a server", s.URL), "for example http://localhost:8000/search")
		}
		names = append(names, s.Name)
	}
	stateful := slices.ContainsFunc(e.Episode.Served, func(s Served) bool { return s.State })
	for i, w := range e.Rewards {
		if w.Name == "environment" && !stateful {
			r(fmt.Sprintf("reward[%d].name", i), "no environment says what an episode was worth", `[[episode.tool]] name = "game", state = true, url = "http://localhost:8000"`)
		}
	}
}

// Engine is [episode.engine]: a server that draws the tokens of training's episodes. trainer/engine speaks with it, and
// trainer/conversations checks it before the first roll (engine.go there).
type Engine struct {
	URL       string  `toml:"url,required" doc:"where it listens: http://localhost:8000"`
	Kind      string  `toml:"kind" enum:"vllm,sglang" doc:"which requests it understands: vLLM's /inference/v1/generate, or SGLang's /generate"`
	Model     string  `toml:"model" doc:"of vllm: the name that it serves the model by; empty: model.path"`
	Folder    string  `toml:"folder" doc:"where adapters are written for it, a folder a version; it must see the same path. Empty: a temporary folder of this machine"`
	KeyEnv    string  `toml:"key_env" doc:"name of the environment variable that holds the key"`
	Timeout   float64 `toml:"timeout" range:"(0,inf)" doc:"seconds for one turn"`
	Tries     int     `toml:"tries" range:"[1,100]" doc:"requests before the episode is missing"`
	AtOnce    int     `toml:"at_once" range:"[1,4096]" doc:"episodes that it plays beside each other"`
	Tolerance float64 `toml:"tolerance" range:"(0,inf)" doc:"how far its log-probabilities may lie from ours, root mean square over the words of a question; beyond it is refused"`
}

// SetDefaults has an engine's defaults.
func (e *Engine) SetDefaults() {
	*e = Engine{Kind: "vllm", Timeout: 300, Tries: 3, AtOnce: 64, Tolerance: 0.2}
}

// correctEngine turns truncated importance sampling on where an engine draws the tokens and no key sets the correction.
// The distance from a teacher has no place for it.
func (e *Experiment) correctEngine() {
	if e.Kind().Has(loss.Teacher) {
		return
	}
	if e.Episode != nil && e.Episode.Engine != nil && !e.Given("loss.correction.weights") && !e.Given("loss.correction.reject") {
		e.Loss.Correction.Weights = "token"
	}
}

// correctStage is correctEngine for a stage, where that or the rest of the file learns from a teacher: the rest's
// correction is then not the stage's.
func (e *Experiment) correctStage(prefix string, s *Stage) {
	if e.Episode == nil || e.Episode.Engine == nil || e.written(prefix+"loss.correction") {
		return
	}
	switch {
	case s.Loss.of(true).Has(loss.Teacher):
		s.Loss.Correction = loss.DefaultCorrection()
	case e.Kind().Has(loss.Teacher):
		s.Loss.Correction.Weights = "token"
	}
}

// checkEngine looks at [episode.engine].
func (e *Experiment) checkEngine(r report) {
	p := e.Episode
	if p.Engine == nil {
		return
	}
	if u := p.Engine.URL; !strings.HasPrefix(u, "http://") && !strings.HasPrefix(u, "https://") {
		r("episode.engine.url", fmt.Sprintf("%q is no address of a server", u), "for example http://localhost:8000")
	}
	if _, adapted := e.Model.Trained(); !adapted {
		r("episode.engine.url", "an engine is given what was trained as an adapter, and model.train trains the network itself", `model.train = ["lora"], or no [episode.engine]`)
	}
	if s := p.Sampling; s.TopK != 0 || s.TopP != 1 || s.MinP != 0 || s.Repetition != 1 {
		r("episode.engine.url", "an engine's log-probabilities are those of all tokens, and episode.sampling draws from some of them", "top_k = 0, top_p = 1, min_p = 0, repetition = 1")
	}
	if p.Noisy != nil {
		r("episode.noisy", "an engine is shown the pictures as they are", "leave it out, or [episode.engine]")
	}
}

// engineMissing are an engine's requirements that the machine lacks.
func (e *Engine) engineMissing() []string {
	if e == nil || e.KeyEnv == "" || os.Getenv(e.KeyEnv) != "" {
		return nil
	}
	return []string{fmt.Sprintf("the engine's key is read from the environment variable %s, which is empty here", e.KeyEnv)}
}
