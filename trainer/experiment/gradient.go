package experiment

import (
	"fmt"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/kinds"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// follows reports whether the reward's own gradient is trained by.
func (e *Experiment) follows() bool { return e.Kind().Learns == loss.RewardSlope }

// tail are the last steps of the sampler, where a way begins at one of them: they are recorded,
// though no choice is judged.
func (e *Experiment) tail() []int {
	var last []int
	if g := e.Loss.Gradient; e.follows() && g.Through != "direct" {
		for step := max(0, e.Sampler.Steps-g.Steps); step < e.Sampler.Steps; step++ {
			last = append(last, step)
		}
	}
	return last
}

// points is how many questions the objective asks the network about a final sample.
func (e *Experiment) points() float64 {
	switch g := e.Loss.Gradient; {
	case !e.follows():
		return float64(e.Loss.Times)
	case g.Through == "draft":
		return float64(g.Steps)
	case g.Through == "refl":
		return 1
	case g.Both:
		return 2 * float64(e.Loss.Times)
	}
	return float64(e.Loss.Times)
}

// checkGradient: operations without a gradient of the reward.
func (e *Experiment) checkGradient(r report, solver sde.Solver) {
	if !e.follows() {
		return
	}
	const objective = "loss.objective"
	sloped := kinds.That(func(k rewards.Kind) bool { return k.Is(rewards.Slopes) })
	g := e.Loss.Gradient
	if !e.Combination().Adds() {
		r(objective+"|rewards.combine", fmt.Sprintf("the gradient goes through the sum of rewards, and they are combined by %q", e.Together.Combine), `combine = "sum"`)
	}
	for _, w := range e.Rewards {
		switch {
		case !w.Train:
		case !slices.Contains(sloped, w.Name):
			r(objective, fmt.Sprintf("reward %q has no gradient at pixels, and is trained on", w.Name), "those that have: "+strings.Join(sloped, ", ")+"; others can be watched with train = false")
		case w.Gate.By != "" || w.Scale.Kind == "batch" || w.Scale.Clamp:
			r(objective, fmt.Sprintf("reward %q has a gate, or a scale that is no factor, and its gradient goes through neither", w.Name), `leave gate out, and of scale all but kind = "range" without clamp`)
		}
	}
	switch direct := g.Through == "direct"; {
	case e.Loss.KL.Weight > 0:
		r("loss.kl.weight|loss.kl|loss.objective", "the reward's own gradient has no KL beside it", "weight = 0; loss.gradient.margin bounds what is gained")
	case direct && solver.VP:
		r("loss.gradient.through|loss.gradient|loss.objective", fmt.Sprintf("direct alignment noises along a flow, and %s is of a ladder", e.Sampler.Solver), `through = "refl" or "draft"`)
	case direct && g.Low+g.Step > g.High:
		r("loss.gradient.step|loss.gradient.low|loss.gradient.high", fmt.Sprintf("a step of %v does not fit between the sigmas %v and %v", g.Step, g.Low, g.High), "a smaller step, or a wider range")
	case !direct && g.Steps > e.Sampler.Steps:
		r("loss.gradient.steps", fmt.Sprintf("there are %d steps", e.Sampler.Steps), "fewer")
	case !direct && (solver.History || e.Sampler.Clip && has(solver.Options, e.Sampler.DDIMOptions)):
		r("sampler.solver|loss.gradient.through", fmt.Sprintf("%s looks back at other steps, or cuts what it predicts, and no gradient is led through that", e.Sampler.Solver), `for example solver = "euler"`)
	}
}
