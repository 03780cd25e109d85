package run

import (
	"context"
	"fmt"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/vision"
)

// Gradients of rewards, for objectives that follow them (loss.objective = "reward-gradient"): what a run answers
// where a model asks how its pictures would earn more.

// Slopes is model.Rewards': the trained rewards' sum over pictures, and its gradient at their numbers.
func (t *training) Slopes(ways []trainer.Way, pictures []vision.Pixels) (values []float64, grads [][]float32, err error) {
	c := t.now.turn.Combination()
	weights := make([][]float64, len(ways)) // of parts, by way
	for i, w := range ways {
		if weights[i], err = c.WeightsFor(t.train[w.Key.Prompt].Weights); err != nil {
			return nil, nil, err
		}
	}
	values, grads = make([]float64, len(ways)), make([][]float32, len(ways))
	for i, m := range pictures {
		grads[i] = make([]float32, len(m.RGB))
	}
	part := 0
	for k, j := range t.panel {
		if !t.now.turn.Rewards[k].Train {
			continue
		}
		factor, low := 1.0, 0.0
		if s := c.Parts[part].Scale; s.Kind == "range" {
			factor, low = s.High-s.Low, s.Low
		}
		for _, against := range []bool{false, true} {
			var at []int
			var items []rewards.Item
			var some []vision.Pixels
			for i, w := range ways {
				if w.Against == against && weights[i][part] != 0 {
					p := t.train[w.Key.Prompt]
					at, items, some = append(at, i), append(items, rewards.Item{Prompt: p.Text, Meta: p.Meta.Map()}), append(some, pictures[i])
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
			for n, i := range at {
				weight := sign * (weights[i][part] / factor)
				values[i] += float64(weight * (v[n] - low))
				for e, x := range g[n] {
					grads[i][e] += float32(float32(weight) * x)
				}
			}
		}
		part++
	}
	return values, grads, nil
}
