package pictures

import (
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision"
)

// The objective that follows the reward's own gradient: which ways lead from samples to pictures.

// rewardGradient is the objective; loss.gradient.through names its ways.
func (m *Model) rewardGradient(settings experiment.Settings, policy trainer.Policy) trainer.Objective {
	o := trainer.RewardGradient{Ways: m.ways(settings)[settings.Loss.Gradient.Through], Margin: settings.Loss.Gradient.Margin}
	o.Developer, _ = policy.(trainer.Developer) // none where an experiment is checked and nothing is open
	if m.rewards != nil {
		o.Reward = m.rewards.Slopes
	}
	return o
}

// ways are all there are, by name.
func (m *Model) ways(settings experiment.Settings) map[string]func([]trainer.Sample) ([]trainer.GradientPath, error) {
	rows, of, _ := m.judgedBy(settings)
	return map[string]func([]trainer.Sample) ([]trainer.GradientPath, error){
		"direct": m.directAlign(settings),
		"refl": trainer.Predicted{Rows: rows, RowsOf: of, Choose: func(k trainer.Key, n int) int {
			return m.Draws.Of("step that predicts", k).Draw().Intn(n)
		}}.Ways,
		"draft": trainer.Last{Rows: rows, RowsOf: of}.Ways,
	}
}

// directAlign is SRPO's. It draws the noisier sigma of a step, at random within an even slice of the range.
// The noise is the one that the sample began at, as upstream has it: the noised sample then lies near the
// way that led to it.
func (m *Model) directAlign(settings experiment.Settings) func([]trainer.Sample) ([]trainer.GradientPath, error) {
	g, times := settings.Loss.Gradient, max(1, settings.Loss.Times)
	draw := func(k trainer.Key, n int) (float64, []float64) {
		at := (float64(n) + m.Draws.Of("sigmas", k).Step(n).Draw().Float64()) / float64(times)
		least := g.Low + g.Step
		start, _ := m.Draws.Keys(k)
		return least + float64(at*(g.High-least)), pipeline.Noise(start, m.form(k).At)
	}
	return trainer.Direct{Draw: draw, Times: settings.Loss.Times, Step: g.Step, Both: g.Both, Unit: unit}.Ways
}

// Pictures is a trainer.Developer: the autoencoder, and the network's inputs, have derivatives.

// Develop decodes final states and takes derivatives at pictures back. A number that the decoder put below black or
// above white is cut, and has no derivative; neither have latents that a clip is given, which are put in their place
// first, whatever a way made of them.
func (p *Policy) Develop(of []trainer.Key, finals [][]float64, at func(from int, pictures []vision.Pixels) ([][]float32, error)) (states [][]float64, err error) {
	given, err := p.sources(of[:len(finals)])
	if err != nil {
		return nil, err
	}
	whole := make([][]float64, len(finals))
	for i, x := range finals {
		whole[i] = given[i].Finish(x)
	}
	for s := range p.stretches(of[:len(finals)], func(int) int { return len(finals) }, func(int, int) bool { return true }) {
		some, err := p.developForm(s.At, whole[s.from:s.to], func(from int, pictures []vision.Pixels) ([][]float32, error) { return at(s.from+from, pictures) })
		if err != nil {
			return nil, err
		}
		for i, x := range some {
			states = append(states, given[s.from+i].Still(x))
		}
	}
	return states, nil
}

// developForm is Develop for pictures of one size.
func (p *Policy) developForm(shape pipeline.Shape, finals [][]float64, at func(from int, pictures []vision.Pixels) ([][]float32, error)) ([][]float64, error) {
	return p.Pipeline.PullDecode(finals, shape, func(from int, raw [][]float32) ([][]float32, error) {
		pictures := make([]vision.Pixels, len(raw))
		for i, x := range raw {
			pictures[i] = vision.Pixels{Width: shape.Width, Height: shape.Height, RGB: pipeline.Pixels(x)}
		}
		grads, err := at(from, pictures)
		if err != nil {
			return nil, err
		}
		out := make([][]float32, len(grads))
		for i, g := range grads {
			out[i] = make([]float32, len(g))
			for e, v := range g {
				if i < len(raw) && e < len(raw[i]) && raw[i][e] >= -1 && raw[i][e] <= 1 {
					out[i][e] = v / 2
				}
			}
		}
		return out, nil
	})
}

// Pull asks the current weights and goes back, to the points' states, too.
func (p *Policy) Pull(at []trainer.Point, grads [][]float64) ([][]float64, error) {
	p.drop()
	tape := p.Pipeline.Tape(true, p.Checkpointing)
	defer tape.Reset()
	var states [][]float64
	passes, err := p.passes(at)
	if err != nil {
		return nil, err
	}
	for _, pass := range passes {
		some, err := p.Pipeline.Pull(tape, pass.At, p.Guidance, pass.points, grads[len(states):min(len(states)+len(pass.points), len(grads))])
		if err != nil {
			return nil, err
		}
		states = append(states, some...)
		tape.Reset()
	}
	return states, nil
}
