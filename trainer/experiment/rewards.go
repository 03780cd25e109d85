package experiment

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/kinds"
	"github.com/darkroom-rl/darkroom/rewards/neural"
)

// Rewards: [[reward]], [rewards], a stage's changes of them, and their limits. A kind of reward, with its own options
// and checks, is a value below its formula (package rewards/kinds).

// Reward is one [[reward]].
type Reward struct {
	Name   string  `toml:"name,required" doc:"the kind: see darkroom list rewards"`
	Label  string  `toml:"label" doc:"what it is called in ledger, report, monitors and gates; empty: its kind. Two of a kind need different labels"`
	Weight float64 `toml:"weight" doc:"share of the sum, or what [rewards] combine makes of it; a prompt's own weights replace it"`
	Train  bool    `toml:"train" doc:"false: gold, measured and never trained on"`
	rewards.NetworkKeys
	rewards.CommandKey
	neural.ScalingKey
	rewards.ServerKeys
	Timeout float64 `toml:"timeout" range:"(0,inf)" doc:"seconds for one answer"`
	rewards.EnvKey
	rewards.AtOnceKey
	Failure

	Relative *rewards.Relative `toml:"relative" doc:"the score with one control word less that with another (SRPO)"`

	Scale rewards.Scale `toml:"scale" doc:"brings rewards of different sizes together"`
	Gate  rewards.Gate  `toml:"gate" doc:"counts only where another reward is good enough"`

	kinds.Options
}

// Failure is a run's reaction to samples without a score of a [[reward]]: a server is gone, a program died, an answer
// has no number. They are missing, and never 0. How often and how long one answer is tried for is rewards/call's;
// this is about failures after that.
type Failure struct {
	OnFailure   string  `toml:"on_failure" enum:"skip,wait,stop" doc:"samples that it has no score for: are left out, asked about again, or stop the run"`
	Tries       int     `toml:"tries" range:"[1,100]" doc:"of one answer, before it is missing"`
	MostMissing float64 `toml:"most_missing" range:"[0,1]" doc:"of skip: the share of an iteration's samples that may be missing; beyond it nothing is learned from that iteration"`
	GiveUp      int     `toml:"give_up" range:"[1,1e6]" doc:"such iterations in a row (skip), or rounds of asking again (wait), after which the run is saved and stops"`
	Pause       float64 `toml:"pause" range:"[0,86400]" doc:"of wait: seconds before asking again"`
}

func defaultFailure() Failure {
	return Failure{OnFailure: "skip", Tries: 4, MostMissing: 0.5, GiveUp: 3, Pause: 10}
}

// SetDefaults has a reward's defaults.
func (r *Reward) SetDefaults() {
	*r = Reward{Weight: 1, Train: true, Timeout: 60, Failure: defaultFailure(), Scale: rewards.Scale{Kind: "none", High: 1}}
}

// Called is the reward's label, or its kind where it has none.
func (r *Reward) Called() string {
	if r.Label != "" {
		return r.Label
	}
	return r.Name
}

// Kind is the reward's kind, with its own options; the zero value where the name is of none.
func (r *Reward) Kind() (k rewards.Kind, own any) {
	k, _ = kinds.Named(r.Name)
	return k, k.Own(r)
}

// Judges are the modalities that the reward judges with its settings.
func (r *Reward) Judges() []string {
	k, own := r.Kind()
	if k.Subject != nil {
		return k.Subject(own).Names()
	}
	return k.Judges.Names()
}

// Outside reports whether the reward waits for a server or a program outside, and computes nothing here.
func (r *Reward) Outside() bool {
	k, _ := r.Kind()
	return k.Is(rewards.Outside) || r.URL != "" && r.Path == ""
}

// Framed reports whether a judge of pictures is asked about each frame of a clip.
func (r *Reward) Framed() bool {
	k, _ := r.Kind()
	return r.Frames != "" || r.Every > 0 || k.Judges&(rewards.Pictures|rewards.Clips) == rewards.Pictures && !k.Is(rewards.Averages)
}

// Toy describes the reward if it is a stand-in that knows nothing but the program's own pictures; "" of others.
func (r *Reward) Toy() string {
	k, _ := r.Kind()
	if r.Path == "" || r.Path == TinyCLIP {
		return k.Toy
	}
	return ""
}

// TinyCLIP is the embedded stand-in for towers.
const TinyCLIP = neural.TinyCLIP

// embedPrefix is the prefix of names of the program's own models and prompts.
const embedPrefix = "embed:"

// Bounds are the least and the most that a score can be, where that is known.
func (r *Reward) Bounds() (low, high float64, known bool) {
	k, own := r.Kind()
	if k.Bounds == nil || r.Relative != nil {
		return 0, 0, false
	}
	b := k.Bounds(own)
	if b == nil {
		return 0, 0, false
	}
	return b.Low, b.High, true
}

// counted is Bounds of the combined number: the score behind its scale and its gate.
func (r *Reward) counted() (low, high float64, known bool) {
	low, high, known = r.Bounds()
	switch s := r.Scale; {
	case s.Kind == "batch":
		return 0, 0, false
	case s.Kind == "range" && s.Clamp && !known:
		low, high, known = 0, 1, true
	case s.Kind == "range":
		low, high = (low-s.Low)/(s.High-s.Low), (high-s.Low)/(s.High-s.Low)
		if s.Clamp {
			low, high = min(max(low, 0), 1), min(max(high, 0), 1)
		}
	}
	if r.Gate.By != "" {
		low, high = min(low, r.Gate.Else), max(high, r.Gate.Else)
	}
	return low, high, known
}

// Together is [rewards]: all of them as one.
type Together struct {
	Combine string `toml:"combine" enum:"sum,product,least,harmonic,ensemble" doc:"how the scores of a sample become one number: sum of weight x score; product of score^weight; least weight x score; harmonic mean; mean of an ensemble less its disagreement. Of product and harmonic, scores below 0 count as 0"`

	Disagreement float64 `toml:"disagreement" range:"[0,inf)" of:"combine=ensemble" doc:"of ensemble: what the variance of its scores is times, that is taken off; scales must be alike (reward.scale)"`
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

// check finds mistakes beyond the decoder's. key is the prefix of keys.
func (r *Reward) check(key string, report report) {
	if r.Name != "" && !r.checkOwn(key, report) {
		return
	}
	k, own := r.Kind()
	inside := func(name, problem, hint string) { report(key+name, problem, hint) }
	r.FrameKeys.Check(inside)
	if k.Check != nil {
		k.Check(own, inside)
	}
	if r.Path == "" && k.Is(rewards.Weights) && k.Toy == "" {
		hint := `for example path = "models/` + r.Name + `"`
		if k.Published != nil {
			hint = fmt.Sprintf("'%s' fetches them; then path = %q", k.Fetch(k.Folder()), k.Folder())
		}
		report(key+"name", fmt.Sprintf("reward %q needs the folder of its weights", r.Name), hint)
	}
}

// checkOwn refuses keys of other rewards. It reports whether it found none.
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
		report(key+k.Path, fmt.Sprintf("%q is not of reward %q", k.Path, r.Name), "it is of "+strings.Join(rewardsWith(k.In), ", "))
		return false
	}
	return true
}

// OwnsKey reports whether a key, such as "ocr.formula", means something to a reward.
func OwnsKey(reward, key string) bool {
	first, _, _ := strings.Cut(strings.TrimSpace(key), ".")
	for _, k := range config.Keys(&Reward{}) {
		if k.Path != first {
			continue
		}
		if all := rewardsWith(k.In); len(all) > 0 {
			return slices.Contains(all, reward)
		}
	}
	return true
}

// rewardsWith are the rewards whose options have a struct.
func rewardsWith(t reflect.Type) []string {
	return kinds.That(func(k rewards.Kind) bool { return slices.Contains(optionTypes(k.Options), t) })
}

// checkRewards: something to train on, each label once.
func (e *Experiment) checkRewards(r report) {
	if len(e.Rewards) == 0 {
		if !e.written("reward") && !e.AllFinetune() {
			r("reward", "there is none: nothing says which picture is better", "write [[reward]] with a name, such as \"aesthetic\"")
		}
		return
	}
	seen := map[string]bool{}
	trained := false
	for i, w := range e.Rewards {
		key := fmt.Sprintf("reward[%d].", i)
		e.checkLabel(w, key, seen, r)
		trained = trained || w.Train
		w.check(key, r)
		e.checkMade(w, key, r)
		if w.Train && w.Weight == 0 && w.Name != "" && !e.isGate(w.Called()) {
			r(key+"weight", "a reward of weight 0 changes nothing", "write train = false to measure it only")
		}
		if k, own := w.Kind(); k.CheckRun != nil {
			k.CheckRun(own, rewards.Run{Makes: e.Makes(), Report: func(name, problem, hint string) { r(key+name, problem, hint) }})
		}
		if w.KeyEnv != "" && strings.ContainsAny(w.KeyEnv, " =-") {
			r(key+"key_env", "this is not the name of an environment variable", "write the variable's name here, and never the key itself")
		}
	}
	if !trained && !e.AllSupervised() && !e.AllFinetune() {
		r("reward", "all are gold (train = false): there is nothing to train on", "leave train out of one of them")
	}
}

// labels are the valid labels of a reward: files, monitors and other programs' pages name it so.
var labels = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// checkLabel: each once, and none that means something else.
func (e *Experiment) checkLabel(w Reward, key string, seen map[string]bool, r report) {
	at := key + "label"
	if w.Label == "" {
		at = key + "name"
	}
	switch label := w.Called(); {
	case label == "":
	case w.Label != "" && !labels.MatchString(w.Label):
		r(at, fmt.Sprintf("%q is no label", w.Label), "1 to 64 letters, digits, and - _ . behind the first")
	case label == "total":
		r(at, `"total" is what all rewards make together`, "another label")
	case seen[label]:
		r(at, fmt.Sprintf("%q is there twice", label), `write label = "ANOTHER NAME" into one of them`)
	}
	seen[w.Called()] = true
}

// checkMade: a reward's input is made, and by a network that knows it.
func (e *Experiment) checkMade(w Reward, key string, r report) {
	k, _ := w.Kind()
	subjects, made := w.Judges(), ""
	for _, m := range e.Makes() {
		if !slices.Contains(subjects, m) {
			made = m
		}
	}
	switch {
	case k.Name == "":
	case made != "":
		names := kinds.That(func(k rewards.Kind) bool { return slices.Contains(k.Judges.Names(), made) })
		r(key+"name", fmt.Sprintf("reward %q judges %s, and this run makes %s", w.Name, strings.Join(subjects, " and "), made), "those that judge "+made+": "+strings.Join(names, ", "))
	case w.Frames != "" && !slices.Contains(e.Makes(), "clips"):
		r(key+"frames", "only a clip has frames, and this run makes "+strings.Join(e.Makes(), " and "), "leave frames out")
	case w.Toy() != "" && w.Path == "" && !e.embedded():
		r(key+"name", fmt.Sprintf("without path, reward %q is %s", w.Name, w.Toy()), k.Remedy)
	}
}

// embedded reports whether the model is one of the program's own, or none is named.
func (e *Experiment) embedded() bool {
	return strings.HasPrefix(e.Model.Path, embedPrefix) || strings.TrimSpace(e.Model.Path) == ""
}

// isGate says whether another reward waits for this one.
func (e *Experiment) isGate(name string) bool {
	return slices.ContainsFunc(e.Rewards, func(w Reward) bool { return w.Train && w.Gate.By == name })
}

// checkCombination: scales, gates and shares of the rewards that are trained.
func (e *Experiment) checkCombination(r report) {
	var place []int // of each part
	for i, w := range e.Rewards {
		if w.Train {
			place = append(place, i)
		}
	}
	if e.Advantage.EachReward() && e.Together.Combine != "sum" {
		r("rewards.combine|advantage.combine", fmt.Sprintf("advantages of each reward are added up, and %q is of the scores of a sample", e.Together.Combine), `combine = "rewards" in [advantage], or combine = "sum" in [rewards]`)
	}
	e.Combination().Check(func(key, problem, hint string) {
		if key == "shares" {
			r("advantage.shares", problem, hint)
			return
		}
		for part, i := range place {
			if before := fmt.Sprintf("parts[%d].", part); strings.HasPrefix(key, before) {
				if strings.HasSuffix(key, "gate.by") && hint == "" {
					hint = "one that is trained on, with weight = 0 if it is a gate alone"
				}
				r(strings.ReplaceAll(key, before, fmt.Sprintf("reward[%d].", i)), problem, hint)
			}
		}
	})
}

// weighed are the rewards with a stage's weights. All rewards are opened, asked and written down in the whole run;
// one whose weight in a stage is 0 is gold there, measured and not trained on.
func (e *Experiment) weighed(s Stage) []Reward {
	if len(s.Weights) == 0 {
		return e.Rewards
	}
	all := slices.Clone(e.Rewards)
	for i := range all {
		if w, ok := s.Weights[all[i].Called()]; ok {
			all[i].Train = w != 0
			if w != 0 {
				all[i].Weight = w
			}
		}
	}
	return all
}

// checkStagesRewards: weights are of rewards that there are, something is trained on in every stage, and it can
// be combined.
func (e *Experiment) checkStagesRewards(r report) {
	var labels []string
	for _, w := range e.Rewards {
		labels = append(labels, w.Called())
	}
	for i, s := range e.Stages {
		key := fmt.Sprintf("stage[%d].weights", i)
		for _, label := range slices.Sorted(maps.Keys(s.Weights)) {
			if !slices.Contains(labels, label) {
				r(key+"."+label, fmt.Sprintf("no reward is called %q", label), "there are "+strings.Join(labels, ", "))
				return
			}
		}
		if len(s.Weights) == 0 && s.Together == e.Together {
			continue
		}
		at := e.at(s)
		if len(at.Combination().Parts) == 0 {
			r(key, "no reward is trained on in this stage", "a weight above 0 for one of "+strings.Join(labels, ", "))
			return
		}
		at.Combination().Check(func(_, problem, hint string) { r(key, problem, hint) })
	}
}
