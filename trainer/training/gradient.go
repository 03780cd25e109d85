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
	return d.t.model.policy.Pull(at, grads)
}

// drawOf is the key of what is drawn for a sample.
func (t *Training) drawOf(what rng.Purpose, k trainer.Key) rng.Key {
	return rng.New(uint64(t.Run.Seed)).With(what).Iteration(k.Iteration).Prompt(uint64(k.Prompt)).Sample(k.Sample)
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
		return least + at*(g.High-least), noise
	}
}

// slopes are the trained rewards' sum over pictures, and its gradient at their numbers.
func (t *Training) slopes(ways []trainer.Way, pictures []vision.Pixels) (values []float64, grads [][]float32, err error) {
	items := make([]rewards.Item, len(ways))
	for i, w := range ways {
		p := t.train[w.Key.Prompt]
		items[i] = rewards.Item{Prompt: p.Text, Meta: p.Meta}
	}
	c := t.Combination()
	weights, err := c.Weights()
	if err != nil {
		return nil, nil, err
	}
	values, grads = make([]float64, len(ways)), make([][]float32, len(ways))
	part := 0
	for _, j := range t.judges {
		if !j.train {
			continue
		}
		d, ok := j.Gradient()
		if !ok {
			return nil, nil, fmt.Errorf("reward %s has no gradient at pixels", j.name)
		}
		v, g, err := d.PixelGradient(context.Background(), items, pictures)
		if err != nil {
			return nil, nil, fmt.Errorf("the gradient of reward %s: %w", j.name, err)
		}
		factor, low := weights[part], 0.0
		if s := c.Parts[part].Scale; s.Kind == "range" {
			factor, low = factor/(s.High-s.Low), s.Low
		}
		part++
		for i, w := range ways {
			sign := factor
			if w.Against {
				sign = -factor
			}
			values[i] += sign * (v[i] - low)
			if grads[i] == nil {
				grads[i] = make([]float32, len(g[i]))
			}
			for e, x := range g[i] {
				grads[i][e] += float32(sign) * x
			}
		}
	}
	return values, grads, nil
}
