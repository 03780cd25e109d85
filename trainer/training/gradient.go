package training

import (
	"context"
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision"
)

// The objective that follows the reward's own gradient: which ways lead from samples to pictures,
// and what the trained rewards say of their numbers.

func (t *Training) followed(turn experiment.Turn) trainer.Objective {
	g := turn.Loss.Gradient
	o := trainer.Developed{Developer: developer{t}, Reward: t.slopes, Margin: g.Margin}
	switch g.Through {
	case "refl":
		o.Ways = trainer.Predicted{Rows: turn.Rows, Choose: func(k trainer.Key, n int) int {
			return t.drawOf("step that predicts", k).Draw().Intn(n)
		}}.Ways
	case "draft":
		o.Ways = trainer.Last{Rows: turn.Rows}.Ways
	default:
		o.Ways = trainer.Direct{Draw: t.direct(turn), Times: turn.Loss.Times, Step: g.Step, Both: g.Both, Unit: unit}.Ways
	}
	return o
}

// developer is the model's policy, which is there once training begins.
type developer struct{ t *Training }

func (d developer) Develop(finals [][]float64, at func(from int, pictures []vision.Pixels) ([][]float32, error)) ([][]float64, error) {
	return d.t.model.policy.Develop(finals, at)
}

func (d developer) Pull(at []trainer.Point, grads [][]float64) ([][]float64, error) {
	return d.t.model.pull(at, grads)
}

// drawOf is the key of what is drawn for a sample.
func (t *Training) drawOf(what rng.Purpose, k trainer.Key) rng.Key {
	return t.root().With(what).Iteration(k.Iteration).Prompt(uint64(k.Prompt)).Sample(k.Sample)
}

// direct draws the noisier sigma of a step, at random within an even slice of the range. The
// noise is the one that the sample began at, as upstream has it: the noised sample then lies near
// the way that led to it.
func (t *Training) direct(turn experiment.Turn) func(k trainer.Key, n int) (float64, []float64) {
	g, times := turn.Loss.Gradient, max(1, turn.Loss.Times)
	return func(k trainer.Key, n int) (float64, []float64) {
		at := (float64(n) + t.drawOf("sigmas", k).Step(n).Draw().Float64()) / float64(times)
		least := g.Low + g.Step
		start, _ := t.model.policy.Draws.Keys(k)
		z := make([]float32, t.model.at.Len())
		start.Normal(z, 0)
		noise := make([]float64, len(z))
		for i, v := range z {
			noise[i] = float64(v)
		}
		return least + float64(at*(g.High-least)), noise
	}
}

// slopes are the trained rewards' sum over pictures, and its gradient at their numbers.
func (t *Training) slopes(ways []trainer.Way, pictures []vision.Pixels) (values []float64, grads [][]float32, err error) {
	c := t.Combination()
	weights, err := c.Weights()
	if err != nil {
		return nil, nil, err
	}
	values, grads = make([]float64, len(ways)), make([][]float32, len(ways))
	for i, m := range pictures {
		grads[i] = make([]float32, len(m.RGB))
	}
	part := 0
	for _, j := range t.judges {
		if !j.train {
			continue
		}
		factor, low := weights[part], 0.0
		if s := c.Parts[part].Scale; s.Kind == "range" {
			factor, low = factor/(s.High-s.Low), s.Low
		}
		part++
		for _, against := range []bool{false, true} {
			var at []int
			var items []rewards.Item
			var some []vision.Pixels
			for i, w := range ways {
				if w.Against == against {
					p := t.train[w.Key.Prompt]
					at, items, some = append(at, i), append(items, rewards.Item{Prompt: p.Text, Meta: p.Meta}), append(some, pictures[i])
				}
			}
			if len(at) == 0 {
				continue
			}
			d, sign, ok := j.Gradient(against)
			if !ok {
				return nil, nil, fmt.Errorf("reward %s has no gradient at pixels", j.name)
			}
			v, g, err := d.PixelGradient(context.Background(), items, some)
			if err != nil {
				return nil, nil, fmt.Errorf("the gradient of reward %s: %w", j.name, err)
			}
			for k, i := range at {
				values[i] += float64(sign * factor * (v[k] - low))
				for e, x := range g[k] {
					grads[i][e] += float32(float32(sign*factor) * x)
				}
			}
		}
	}
	return values, grads, nil
}
