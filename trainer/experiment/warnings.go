package experiment

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// warnings are settings that seem unwise, and run all the same.
func (e *Experiment) warnings(p StagePlan) []string {
	var all []string
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if e.Episode == nil && e.Kind().Has(loss.Ratio) {
		for _, w := range p.Windows {
			if len(w.Steps) == 0 {
				warn("iterations %d-%d have an empty window: they roll samples and train nothing", w.First, w.Last)
			}
		}
		if last := p.Rows[len(p.Rows)-1]; last.Trained && last.To == 0 && e.leavesNoise() {
			warn("the last step is trained, and %s leaves its noise in the picture: window.drop = 1 leaves it out", e.Sampler.Solver)
		}
		if floor, step := e.noiseFloor(p.Rows); !e.OnPolicy() && e.Model.Precision == "bf16" && e.Loss.ClipRange > 0 && floor > e.Loss.ClipRange {
			warn("clip_range %.2g is below what rounding to bf16 does to the log-probability of step %d (about %.1g): its samples are clipped by noise", e.Loss.ClipRange, step, floor)
		}
		if e.Loss.ClipRange > 0.05 && !e.OnPolicy() && e.Loss.Ratio == "plain" {
			warn("clip_range %v never clips: log-probabilities are means over the elements of a picture, and ratios stay within a thousandth of 1 (published: 1e-6 to 1e-3)", e.Loss.ClipRange)
		}
		if s := e.Sampler; s.Flash != nil && slices.ContainsFunc(p.Windows, func(w Position) bool { return flashLeaves(s, w.Steps) }) {
			warn("flash.ratio = %v leaves one point of the tail: its last sigma is not 0, and pictures keep noise", s.Flash.Ratio)
		}
	}
	if p := e.Episode; p != nil && p.Protocol == "vrag" && len(p.Served) == 0 && (len(p.Tools) == 0 || slices.Contains(p.Tools, "search")) {
		warn("there is nothing to search in: every <search> of vrag is answered as an invalid action ([[episode.tool]] name = \"search\" has a server or a program find pages; tools = [\"bbox\"] does without)")
	}
	if first := e.Comparison().FirstOf; first != nil && e.Rollout.Group == 1 && p.First == 1 {
		warn("with one sample a prompt, the first %d visits of a prompt are compared with the batch", first(e.Advantage.Settings))
	}
	all = append(append(all, e.beyondRange()...), e.outside()...)
	if e.Evaluate.Prompts == "" && (len(e.Rewards) > 0 || !e.AllFinetune()) {
		warn("there are no held-out prompts ([evaluate] prompts): a gain may be no more than memorised prompts")
	}
	if p := e.Evaluate.Prompts; p != "" && slices.ContainsFunc(e.Lists(), func(l List) bool { return l.Name == p }) {
		warn("evaluate.prompts are the prompts that are trained on: a gain may be no more than memorised prompts")
	}
	if len(e.Monitors) == 0 && !e.hasGold() && !e.AllFinetune() {
		warn("no reward is gold and no monitor watches: hacking of the trained reward would be seen by eye only")
	}
	if e.Rollout.SharedNoise && e.Rollout.TextNoise == nil && e.Sampler.Tree == nil && e.Kind().OfFinished() && e.Sampler.Noise == 0 {
		warn("a group from one start noise and no noise after it is one picture, made %d times", e.Rollout.Group)
	}
	return all
}

// beyondRange names rewards that may lie outside of the estimator's range, which would end the run.
func (e *Experiment) beyondRange() (all []string) {
	rule := e.Comparison()
	if rule.Takes == nil {
		return nil
	}
	takes := rule.Takes(e.Advantage.Settings)
	says := func(what, mend string) {
		all = append(all, fmt.Sprintf("advantage.estimator = %q takes rewards from %v to %v and ends the run at others, and %s; %s", e.Advantage.Estimator, takes[0], takes[1], what, mend))
	}
	beyond := func(who string, low, high float64, mend string) {
		if low >= takes[0] && high <= takes[1] {
			return
		}
		if has(rule.Options, e.Advantage.BetaOptions) {
			mend = fmt.Sprintf("advantage.range = [%v, %v], or %s", low, high, mend)
		}
		says(fmt.Sprintf("%s from %v to %v", who, low, high), mend)
	}
	var ends [][]float64
	for i, r := range e.Rewards {
		if !r.Train {
			continue
		}
		low, high, known := r.counted()
		scale := fmt.Sprintf("reward[%d].scale = { kind = \"range\", low = LEAST, high = MOST, clamp = true }", i)
		if ends = append(ends, []float64{low, high}); !known {
			says(fmt.Sprintf("nothing bounds those of %q", r.Called()), scale)
		} else if e.Advantage.EachReward() {
			beyond(fmt.Sprintf("%q lies", r.Called()), low, high, scale)
		}
	}
	c := e.Combination()
	weights, err := c.Weights()
	if err != nil || len(ends) == 0 || len(all) > 0 || e.Advantage.EachReward() {
		return all
	}
	for k := range c.Parts {
		c.Parts[k].Scale, c.Parts[k].Gate = rewards.Scale{}, rewards.Gate{}
		if weights[k] < 0 { // of a sum alone
			slices.Reverse(ends[k])
		}
	}
	if sums, err := c.Of(ends); err == nil {
		beyond("all together lie", sums[0], sums[1], "scales and weights that keep to it, such as advantage.shares = true")
	}
	return all
}

// coverage counts how often steps are trained over stages with as many steps.
type coverage struct {
	iterations int
	counts     map[int][]int // by the number of steps
}

func (c *coverage) add(p StagePlan) {
	if p.Coverage == nil {
		return
	}
	if c.counts == nil {
		c.counts = map[int][]int{}
	}
	c.iterations += p.Planned
	all := c.counts[len(p.Coverage)]
	if all == nil {
		all = make([]int, len(p.Coverage))
		c.counts[len(p.Coverage)] = all
	}
	for i, n := range p.Coverage {
		all[i] += n
	}
}

// warnings name the steps that no stage trains.
func (c *coverage) warnings() []string {
	all := []string{}
	for _, steps := range slices.Sorted(maps.Keys(c.counts)) {
		if never := untrained(c.counts[steps]); never != "" {
			all = append(all, fmt.Sprintf("%s never trained in %d iterations", never, c.iterations))
		}
	}
	return all
}

func (e *Experiment) hasGold() bool {
	for _, r := range e.Rewards {
		if !r.Train {
			return true
		}
	}
	return false
}

// untrained names the steps that no iteration trains: "step 9 is", "steps 15-24 are".
func untrained(coverage []int) string {
	var runs []string
	steps := 0
	for i := 0; i < len(coverage); i++ {
		if coverage[i] > 0 {
			continue
		}
		first := i
		for i+1 < len(coverage) && coverage[i+1] == 0 {
			i++
		}
		steps += i - first + 1
		if runs = append(runs, fmt.Sprint(first)); i > first {
			runs[len(runs)-1] = fmt.Sprintf("%d-%d", first, i)
		}
	}
	switch {
	case steps == 0 || steps == 1 && coverage[len(coverage)-1] == 0: // the last step alone is always left out
		return ""
	case steps == 1:
		return "step " + runs[0] + " is"
	}
	return "steps " + strings.Join(runs, ", ") + " are"
}

// leavesNoise reports whether the solver's noise at the last step stays in the picture.
func (e *Experiment) leavesNoise() bool {
	solver, _ := sde.SolverNamed(e.Sampler.Solver)
	return solver.LeavesNoise
}

// noiseFloor is about the effect of rounding a network's output to bf16 on the log-probability of a trained step, at
// worst: a relative error of 2^-9 of an output of size 1 moves the mean by g·2^-9, and the log-probability's mean
// over elements by half the square of that over the deviation.
func (e *Experiment) noiseFloor(rows []PlanRow) (floor float64, step int) {
	for _, r := range rows {
		if !r.Trained || r.Noise == 0 || len(r.Outputs) == 0 {
			continue
		}
		moved := math.Abs(r.Outputs[0]) * 0x1p-9
		f := moved * moved / (2 * r.Noise * r.Noise)
		if r.density == sde.Square { // a log-probability that is not over the deviation
			f = moved * moved
		}
		if f > floor {
			floor, step = f, r.Step
		}
	}
	return floor, step
}

// flashLeaves reports a tail of one point.
func flashLeaves(s Sampler, window []int) bool {
	if s.Flash.All || len(window) == 0 {
		return false
	}
	last := window[len(window)-1]
	return int(float64(s.Steps-last)*s.Flash.Ratio) <= 1
}

// A written key that nothing reads, and a setting that has nothing to act on, are no mistakes, since methods may be
// varied over one file, and are easily overlooked: the plan warns.

// idle says which written keys nothing reads. A key outside of [[stage]] is read where any stage reads it.
func (e *Experiment) idle() []string {
	by := map[string]string{}
	for i, at := range e.EachStage() {
		unread := at.unreadKeys("")
		if i == 0 {
			by = unread
		}
		maps.DeleteFunc(by, func(key, _ string) bool { _, ok := unread[key]; return !ok })
	}
	for i := range e.Stages {
		maps.Copy(by, e.Stage(i).unreadKeys(fmt.Sprintf("stage[%d].", i)))
	}
	keys := map[string][]string{}
	for key, who := range by {
		keys[who] = append(keys[who], key)
	}
	var all []string
	for _, who := range slices.Sorted(maps.Keys(keys)) {
		slices.Sort(keys[who])
		how := "by "
		if strings.Contains(who, " = ") {
			how = "with "
		}
		says := fmt.Sprintf("%s %s not read %s%s", strings.Join(keys[who], ", "), are(len(keys[who])), how, who)
		for _, key := range keys[who] {
			if theirs := theirsFor(key); theirs != "" {
				says += "; " + theirs
			}
		}
		all = append(all, says)
	}
	all = append(append(all, e.idleSettings(by)...), e.idleAverage()...)
	return append(append(all, e.idleGates()...), e.idleMonitors()...)
}

// An idleSetting is a setting that has nothing to act on where the experiment, or a stage of it, has certain others.
type idleSetting struct {
	keys  string                     // "a|b": those that somebody gave are named
	file  bool                       // not for a preset's, whose settings are its source's
	where func(e *Experiment) bool   // it has nothing to act on
	why   func(e *Experiment) string // it has not
	gives string                     // the setting that gives it something
}

// idleSettings says which settings have nothing to act on: of a key outside of [[stage]] where no stage gives it
// anything. Keys that nothing reads have their own warning.
func (e *Experiment) idleSettings(unread map[string]string) (all []string) {
	values := map[string]string{}
	for _, k := range config.Keys(e) {
		values[k.Path] = k.Default
	}
	stages := e.EachStage()
	for _, row := range idleTable() {
		idle := 0
		for i, at := range stages {
			if !row.where(at) {
				continue
			}
			idle++
			if len(e.Stages) > 0 {
				all = append(all, row.says(at, fmt.Sprintf("stage[%d].", i), nil, unread)...)
			}
		}
		if idle == len(stages) {
			all = append(all, row.says(stages[0], "", values, unread)...)
		}
	}
	return all
}

// says is the line of a row, where one of its keys was given below a prefix.
func (s idleSetting) says(e *Experiment, prefix string, values, unread map[string]string) []string {
	var given []string
	for _, key := range strings.Split(s.keys, "|") {
		by := "default"
		switch {
		case e.written(prefix + key):
			by = ""
		case prefix == "" && !s.file:
			by = e.Origin(key)
		}
		if _, told := unread[key]; by == "default" || told {
			continue
		}
		one := prefix + key
		if v := values[key]; v != "" && len(v) < 40 {
			one += " = " + v
		}
		if by != "" && by != "--set" {
			one += " (" + by + ")"
		}
		given = append(given, one)
	}
	if len(given) == 0 {
		return nil
	}
	verb := "has"
	if len(given) > 1 {
		verb = "have"
	}
	return []string{fmt.Sprintf("%s %s nothing to act on: %s; %s", strings.Join(given, ", "), verb, s.why(e), s.gives)}
}

// idleTable are the rows. Impossible settings are refused elsewhere: a reward of weight 0 that is trained on, and an
// estimator that has groups of one to compare.
func idleTable() []idleSetting {
	because := func(format string, args ...any) func(*Experiment) string {
		return func(*Experiment) string { return fmt.Sprintf(format, args...) }
	}
	const ratios = "every ratio is 1, with one update an iteration, no lag and no buffer"
	const further = "optim.updates = 2, run.lag = 1 or rollout.buffer makes ratios differ"
	byRatio := func(e *Experiment) bool { return e.Kind().Has(loss.PlainAtOne) }
	compares := func(e *Experiment) bool { return e.Kind().Has(loss.Advantages) && !e.Supervised() }
	alone := func(e *Experiment) bool { return e.Rollout.Group == 1 && compares(e) }
	trained := func(e *Experiment) (n int) {
		for _, w := range e.Rewards {
			if w.Train {
				n++
			}
		}
		return n
	}
	return []idleSetting{
		// Ratios.
		{"loss.clip_range|loss.clip_high|loss.dual_clip|loss.ratio_cap|loss.drift", false, func(e *Experiment) bool { return e.OnPolicy() && !byRatio(e) }, because(ratios), further},
		{"loss.ratio", false, func(e *Experiment) bool { return e.OnPolicy() && e.Loss.Ratio != "plain" }, because(ratios), further},
		{"loss.objective|loss.clip_range|loss.clip_high|loss.dual_clip|loss.ratio_cap|loss.drift|loss.threshold", false, func(e *Experiment) bool { return e.OnPolicy() && byRatio(e) }, func(e *Experiment) string {
			return fmt.Sprintf("objective %q is the plain policy gradient where %s", e.Loss.Objective, ratios)
		}, further},
		{"loss.noise_floor", false, func(e *Experiment) bool { return e.OnPolicy() && e.Loss.NoiseFloor == "stop" && e.Episode == nil }, because("rounding cuts nothing where %s", ratios), further},
		{"loss.kl.weight", false, func(e *Experiment) bool { return e.OnPolicy() && e.Loss.KL.Weight > 0 && e.Loss.KL.Reference == "old" },
			because("the old weights are the current ones where %s", ratios), `loss.kl.reference = "base", or ` + further},

		// Distances from a reference.
		{"loss.kl.weight", false, func(e *Experiment) bool { return e.Loss.KL.Weight > 0 && !e.asksReference() }, func(e *Experiment) string {
			return fmt.Sprintf("objective %q asks no reference", e.Loss.Objective)
		}, `objective = "clip" or "nft" has a distance from one`},
		{"loss.kl.estimator|loss.kl.reference|loss.kl.over|loss.kl.cut|loss.kl.corrected|loss.kl.reset", true, func(e *Experiment) bool {
			return e.Loss.KL.Weight == 0 && e.Loss.KL.EMAWeight == 0 && !e.Kind().Has(loss.Reference)
		}, because("loss.kl.weight is 0"), "loss.kl.weight = 0.04"},

		// The optimiser.
		{"optim.lr", false, func(e *Experiment) bool {
			_, adapter := e.Model.Trained()
			return adapter && e.Optim.LR < leastAdapterLR
		},
			because("an adapter begins at 0 and hardly moves at this rate, which is one of whole networks"), `optim.lr = 1e-4 (published: 1e-4 to 3e-4), or model.train = "full"`},
		{"optim.split", false, func(e *Experiment) bool { return e.Optim.Split && e.Optim.Updates == 1 }, because("one update has all samples of an iteration"), "optim.updates = 2"},
		{"optim.warmup", true, func(e *Experiment) bool { return e.Optim.Warmup >= e.Run.Iterations*e.Optim.Updates }, func(e *Experiment) string {
			return fmt.Sprintf("there are %s, and the rate never reaches optim.lr", count(e.Run.Iterations*e.Optim.Updates, "update"))
		}, "a shorter warm-up, or more iterations"},
		{"optim.ema_every|optim.ema_shape", true, func(e *Experiment) bool { return e.Optim.EMA == 0 && !e.Kind().Has(loss.OldFollows) }, because("optim.ema is 0"), "optim.ema = 0.9"},
		{"optim.schedule_steps", false, func(e *Experiment) bool { return e.Optim.Schedule == "constant" }, because("a constant rate has no end"), `optim.schedule = "cosine"`},

		// Who is compared.
		{"advantage", true, func(e *Experiment) bool { return !compares(e) }, func(e *Experiment) string {
			return fmt.Sprintf("objective %q compares no samples", e.Loss.Objective)
		}, `objective = "clip" compares them`},
		{"advantage.estimator|advantage.singleton", false, func(e *Experiment) bool {
			return alone(e) && e.Comparison().Company == advantage.InGroup && e.Advantage.Singleton == "raw" && !e.Rollout.Offline
		}, because("a group of one is compared with nobody, and its advantage is its reward"), "rollout.group = 2 or more"},
		{"advantage.estimator", false, func(e *Experiment) bool {
			return alone(e) && e.Rollout.PromptsPerIteration == 1 && e.Comparison().Company == advantage.InBatch
		}, because("a batch of one sample is compared with nobody"), "rollout.group or prompts_per_iteration above 1"},
		{"advantage.turns", false, alone, because("turns of a group's episodes are compared, and a group is one episode"), "rollout.group = 2 or more"},
		{"advantage.filter", false, func(e *Experiment) bool {
			return alone(e) && e.Advantage.Filter != nil && e.Advantage.Filter.By == "deviation"
		}, because("one sample has no deviation, and every group is left out"), "rollout.group = 2 or more"},
		{"rollout.shared_noise", false, func(e *Experiment) bool { return e.Rollout.SharedNoise && e.Rollout.Group == 1 && e.Episode == nil },
			because("a group of one shares its start with nobody"), "rollout.group = 2 or more"},
		{"advantage.keep", false, func(e *Experiment) bool { return e.Advantage.Keep != nil && e.Advantage.Keep.Of == e.Rollout.Group },
			because("all samples of a group are kept"), "a smaller advantage.keep.of, or a larger rollout.group"},
		{"advantage.best_of", false, func(e *Experiment) bool { return e.Advantage.BestOf > 0 && e.Advantage.BestOf == e.Rollout.Group },
			because("all samples of a group are learned from"), "a smaller advantage.best_of, or a larger rollout.group"},

		// Rewards.
		{"rewards.combine|rewards.disagreement", false, func(e *Experiment) bool {
			return trained(e) == 1 && slices.Contains([]string{"least", "ensemble"}, e.Together.Combine)
		}, because("one reward is trained on"), "another [[reward]]"},
		{"advantage.combine", true, func(e *Experiment) bool { return trained(e) == 1 && e.Advantage.How == "advantages" }, because("one reward is trained on"), "another [[reward]]"},

		// The sampler.
		{"sampler.negative", false, func(e *Experiment) bool {
			return e.Episode == nil && e.Sampler.Negative != "" && e.Sampler.Guidance <= 1 && e.Sampler.Second <= 1
		},
			because("nothing is led away from a text without guidance"), "sampler.guidance = 4"},
		{"sampler.window|sampler.outside", true, func(e *Experiment) bool { return e.Noised() && e.Episode == nil && !e.Sampler.Ladder() }, func(e *Experiment) string {
			return fmt.Sprintf("objective %q judges final samples, and no step is trained", e.Loss.Objective)
		}, `objective = "clip" trains steps`},
		{"sampler.noise", false, func(e *Experiment) bool {
			s, ok := sde.SolverNamed(e.Sampler.Solver)
			return e.Episode == nil && ok && e.Sampler.Noise > 0 && (!s.Stochastic || s.Ancestral)
		}, func(e *Experiment) string {
			if s, _ := sde.SolverNamed(e.Sampler.Solver); s.Stochastic {
				return fmt.Sprintf("%s draws as much as its schedule says", e.Sampler.Solver)
			}
			return fmt.Sprintf("%s draws nothing", e.Sampler.Solver)
		}, `solver = "flow-sde", "dance" or "cps"`},

		// Conversations.
		{"episode.tools|episode.tool", true, func(e *Experiment) bool { return e.Episode != nil && e.Episode.Turns == 1 },
			because("an episode of one turn ends with its first answer, and what a tool gives back is never read"), "episode.turns = 2 or more"},
		{"episode.overlong", false, func(e *Experiment) bool {
			return e.Episode != nil && e.Episode.Overlong != nil && e.Episode.Overlong.Limit-e.Episode.Overlong.Buffer >= e.Episode.Tokens
		}, func(e *Experiment) string {
			return fmt.Sprintf("an episode ends at %d tokens, before the penalty begins", e.Episode.Tokens)
		}, "a smaller episode.overlong.limit"},

		// Evaluations, and the rest.
		{"evaluate.every|evaluate.samples|evaluate.seed|evaluate.width|evaluate.height|evaluate.turns|evaluate.frames|sampler.eval_steps|sampler.eval_solver", true,
			func(e *Experiment) bool { return e.Evaluate.Prompts == "" }, because("nothing is held out"), `evaluate.prompts = "FILE"`},
		{"model.lora", true, func(e *Experiment) bool { _, adapter := e.Model.Trained(); return !adapter }, because("no adapter is trained"), `model.train = "lora"`},
		{"model.lora.rank|model.lora.alpha|model.lora.targets", true, func(e *Experiment) bool { return e.Model.Adapter != "" },
			because("the adapter that training begins with has a rank and layers of its own"), "leave model.adapter out for a new one"},
		{"run.lag", false, func(e *Experiment) bool { return e.Run.Lag > 0 && e.Supervised() }, because("nothing is rolled"), "an objective that rolls"},
	}
}

// leastAdapterLR is below every rate that adapters were published with.
const leastAdapterLR = 2e-5

// asksReference reports whether the objective has a distance from a reference, where loss.kl.weight has a value.
func (e *Experiment) asksReference() bool {
	o := e.Kind()
	switch {
	case e.Supervised():
		return false
	case e.Episode != nil || o.Has(loss.Ratio):
		return true
	}
	return o.Has(loss.ReferenceIfWeighted)
}

// idleAverage warns that nothing uses the moving average, whatever turned it on.
func (e *Experiment) idleAverage() []string {
	if all := e.EachStage(); e.doc.Origin("evaluate.weights") != config.Absent && e.Evaluate.Weights == "ema" && !slices.ContainsFunc(all, func(at *Experiment) bool { return at.Optim.EMA > 0 }) {
		return []string{"evaluate.weights = \"ema\" is not read without a moving average (optim.ema is 0): the weights themselves are evaluated"}
	}
	for _, at := range e.EachStage() {
		if at.Optim.EMA == 0 || at.averaged() {
			return nil
		}
	}
	return []string{fmt.Sprintf("optim.ema = %v keeps an average of the trained weights that nothing looks at: evaluations have the weights themselves, and checkpoints have it beside them; evaluate.weights = \"ema\" looks at it, ema = 0 saves its memory", e.Optim.EMA)}
}

// averaged reports whether the objective looks at the moving average of the weights.
func (e *Experiment) averaged() bool {
	l, o := e.Loss, e.Kind()
	return e.Evaluate.Weights == "ema" || o.Has(loss.OldFollows) || l.KL.Reference == "ema" && (l.KL.Weight > 0 || o.Has(loss.Reference)) || l.KL.EMAWeight > 0 && o.Has(loss.AverageIfWeighted)
}

// EachStage is the experiment as each of its stages has it: itself without stages.
func (e *Experiment) EachStage() []*Experiment {
	if len(e.Stages) == 0 {
		return []*Experiment{e}
	}
	var all []*Experiment
	for i := range e.Stages {
		all = append(all, e.Stage(i))
	}
	return all
}

func are(n int) string {
	if n > 1 {
		return "are"
	}
	return "is"
}

// idleGates are gates that no sample can pass, or that every sample does, and settings of missing gates and scales.
func (e *Experiment) idleGates() (all []string) {
	for i, w := range e.Rewards {
		key := fmt.Sprintf("reward[%d].", i)
		if w.Gate.By == "" && (e.written(key+"gate.at_least") || e.written(key+"gate.else")) {
			all = append(all, key+"gate has nothing to act on: no reward is waited for; gate.by = \"LABEL\" names one")
		}
		if kind := w.Scale.Kind; kind != "range" && (e.written(key+"scale.low") || e.written(key+"scale.high") || e.written(key+"scale.clamp")) {
			all = append(all, fmt.Sprintf("%sscale.low, high and clamp have nothing to act on: the scale is %q; scale.kind = \"range\" reads them", key, kind))
		}
		by := slices.IndexFunc(e.Rewards, func(other Reward) bool { return other.Train && other.Called() == w.Gate.By })
		if w.Gate.By == "" || by < 0 || !w.Train {
			continue
		}
		switch low, high, known := e.Rewards[by].Bounds(); {
		case known && w.Gate.AtLeast > high:
			all = append(all, fmt.Sprintf("%sgate.at_least = %v is passed by no sample: reward %q is at most %v, so that %q is never counted; a bound of at most %v", key, w.Gate.AtLeast, w.Gate.By, high, w.Called(), high))
		case known && w.Gate.AtLeast <= low:
			all = append(all, fmt.Sprintf("%sgate has nothing to act on: at_least = %v is passed by every sample, since reward %q is at least %v; a bound above %v", key, w.Gate.AtLeast, w.Gate.By, low, low))
		}
	}
	return all
}

// idleMonitors watch numbers that cannot move.
func (e *Experiment) idleMonitors() (all []string) {
	for i, m := range e.Monitors {
		if slices.ContainsFunc(ledger.Metrics(), func(n ledger.Metric) bool { return n.Name == m.Watch && n.ByRatio }) && !slices.ContainsFunc(e.EachStage(), func(at *Experiment) bool { return !at.OnPolicy() }) {
			all = append(all, fmt.Sprintf("monitor[%d] has nothing to act on: %s is 0 in every iteration, since every ratio is 1 with one update an iteration, no lag and no buffer; optim.updates = 2, run.lag = 1 or rollout.buffer makes ratios differ", i, m.Watch))
		}
	}
	return all
}
