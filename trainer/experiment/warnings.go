package experiment

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// warnings are what seems unwise, and runs all the same.
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
	if e.Evaluate.Prompts == "" {
		warn("there are no held-out prompts ([evaluate] prompts): a gain may be no more than memorised prompts")
	}
	if len(e.Monitors) == 0 && !e.hasGold() {
		warn("no reward is gold and no monitor watches: hacking of the trained reward would be seen by eye only")
	}
	if e.Rollout.SharedNoise && e.Sampler.Tree == nil && e.Kind().OfFinished() && e.Sampler.Noise == 0 {
		warn("a group from one start noise and no noise after it is one picture, made %d times", e.Rollout.Group)
	}
	return all
}

// beyondRange names rewards that may lie outside of what the estimator takes, which would end the run.
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

// leavesNoise reports whether what the solver draws at the last step stays in the picture.
func (e *Experiment) leavesNoise() bool {
	solver, _ := sde.SolverNamed(e.Sampler.Solver)
	return solver.LeavesNoise
}

// noiseFloor is about what rounding a network's output to bf16 does to the
// log-probability of a trained step, at worst: a relative error of 2^-9 of an output
// of size 1 moves the mean by g·2^-9, and the log-probability's mean over elements by
// half the square of that over the deviation.
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
