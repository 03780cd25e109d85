package experiment

import (
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/sde"
)

// A Seed is a purpose that random numbers are drawn for, and the coordinates of each
// draw: nothing else decides what is drawn, neither batches nor threads nor resuming.
type Seed struct {
	Purpose     rng.Purpose `json:"purpose"`
	Coordinates string      `json:"coordinates"`
	Draws       string      `json:"draws"`
}

// The purposes.
const (
	startNoise rng.Purpose = "start noise"
	stepNoise  rng.Purpose = "step noise"
	windowDraw rng.Purpose = "window"
	oneDraw    rng.Purpose = "the one step"
	ownDraw    rng.Purpose = "own window"
	promptDraw rng.Purpose = "prompts"
	evalNoise  rng.Purpose = "evaluation"
	shared     rng.Purpose = "shares"
	timesDrawn rng.Purpose = "times"
	tokens     rng.Purpose = "tokens"
	programs   rng.Purpose = "programs"
	curriculum rng.Purpose = "curriculum"
	passRates  rng.Purpose = "pass rates"
	bufferDraw rng.Purpose = "buffer"
	skipDraw   rng.Purpose = "skip"
	filtration rng.Purpose = "filtration"
	masking    rng.Purpose = "masked pictures"
	shuffling  rng.Purpose = "shuffled frames"
	imitated   rng.Purpose = "imitated"
	branching  rng.Purpose = "branches"
)

// seeds lists what this experiment draws.
func (e *Experiment) seeds() []Seed {
	all := []Seed{{promptDraw, "iteration", "which prompts are rolled"}}
	sample := "iteration, prompt, sample"
	tree := e.Sampler.Tree != nil && e.Episode == nil
	switch {
	case tree:
		all = append(all, Seed{startNoise, "iteration, prompt, tree", "the noise that a tree starts from"})
	case e.Rollout.SharedNoise:
		all = append(all, Seed{startNoise, "iteration, prompt", "the noise that a group starts from"})
	default:
		all = append(all, Seed{startNoise, sample, "the noise that a sample starts from"})
	}
	switch {
	case e.Episode != nil:
		all = []Seed{all[0], {tokens, sample + ", token", "the tokens of an episode"}}
		if e.Episode.Exec != nil {
			all = append(all, Seed{programs, sample, "what random and numpy.random begin at in an episode's code"})
		}
		if e.Episode.Shuffled != nil {
			all = append(all, Seed{shuffling, "iteration, prompt, clip", "the order in which a control sees a clip's frames"})
		}
		if e.Episode.Tree != nil {
			all = append(all, Seed{branching, sample, "where a branch parts from its tree"})
		}
		if e.Loss.Perception.On() {
			all = append(all, Seed{masking, "iteration, prompt, picture", "which patches of a picture are masked"})
		}
		if e.Imitates() {
			all = append(all, Seed{imitated, "iteration", "which written answers are learned from"})
		}
	case tree:
		all = append(all, Seed{stepNoise, "iteration, prompt, tree, step, branch", "the noise of a branch's step"})
	case e.Kind().OfFinished():
		if s, ok := sde.SolverNamed(e.Sampler.Solver); ok && s.Stochastic {
			all = append(all, Seed{stepNoise, sample + ", step", "the noise of a step"})
		}
	default:
		all = append(all, Seed{stepNoise, sample + ", step", "the noise of a step in the window"})
	}
	if w := e.Sampler.Window; e.Episode == nil && !e.Kind().OfFinished() && w.Own {
		all = append(all, Seed{ownDraw, "iteration, prompt", "the position of a prompt's window"})
	} else if k, _ := sde.WindowNamed(w.Kind); e.Episode == nil && !e.Kind().OfFinished() && k.Draws {
		all = append(all, Seed{windowDraw, "iteration", "the position of the window"})
	}
	if e.Sampler.Window.One && e.Episode == nil && !e.Kind().OfFinished() {
		all = append(all, Seed{oneDraw, "iteration, prompt", "at which step of the window a prompt draws"})
	}
	if e.Kind().OfFinished() {
		all = append(all, Seed{timesDrawn, sample + ", step", "times and noise of the objective"})
	}
	if e.Optim.Split && e.Optim.Updates > 1 {
		all = append(all, Seed{shared, "iteration", "which update sees which samples"})
	}
	if e.Rollout.Curriculum != nil {
		all[0] = Seed{curriculum, "iteration, attempt", "which prompts are rolled"}
	}
	if e.Rollout.Skip != nil {
		all = append(all, Seed{skipDraw, "place in the list", "which prompts are skipped"})
	}
	if e.Rollout.Buffer != nil {
		all = append(all, Seed{bufferDraw, "iteration", "which groups are learned from again"})
	}
	if e.Advantage.BestOf > 1 && e.Advantage.BestBy == "drawn" {
		all = append(all, Seed{filtration, "iteration, prompt", "which samples are learned from beside a group's best"})
	}
	if f := e.Rollout.Filter; f != nil && f.Path == "" {
		all = append(all, Seed{passRates, "prompt, sample (and step)", "the noise of samples that pass rates are measured by"})
	}
	return append(all, Seed{evalNoise, "prompt, sample (of evaluate.seed)", "the noise of held-out samples, the same in every evaluation"})
}

// window is the steps that an iteration trains, as far as the window says: those of any prompt, where each has its own.
func (e *Experiment) window(iteration int) []int {
	draw := rng.New(uint64(e.Run.Seed)).With(windowDraw).Iteration(iteration).Draw()
	if w := e.Sampler.Window; w.Own {
		return w.Reach(e.Sampler.Steps)
	}
	return e.Sampler.Window.Steps(e.Sampler.Steps, iteration, draw.Intn)
}
