package toy

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer"
)

// A Policy rolls the linear network along a sampler's rows.
type Policy struct {
	*Linear
	Rows    []sde.Row
	Times   []float64 // the network's time at each row
	Trained []int     // steps that may be judged
	Start   func(k trainer.Key) []float64
	Noise   func(k trainer.Key, step int) []float64
}

// Roll implements trainer.Policy.
func (p *Policy) Roll(w trainer.Weights, keys []trainer.Key) ([]trainer.Sample, error) {
	samples := make([]trainer.Sample, len(keys))
	for i, key := range keys {
		start := p.Start(key)
		if len(start)%p.D != 0 {
			return nil, fmt.Errorf("the start noise of %d numbers has no rows of %d", len(start), p.D)
		}
		net := func(x []float64, step int) []float64 { return p.forward(w, x, p.Times[step]) }
		t := sde.Run(p.Rows, start, net, func(step int) []float64 { return p.Noise(key, step) })
		samples[i].Key = key
		d := &samples[i].Decisions
		*d = trainer.Decisions{Time: p.Times, Mean: t.Means, LogProb: t.LogProb,
			State: t.States[:len(p.Rows)], Choice: t.States[1:]}
		for step := range p.Rows {
			d.Step, d.Trained = append(d.Step, step), append(d.Trained, slices.Contains(p.Trained, step))
		}
		samples[i].Item.Final = t.States[len(p.Rows)]
	}
	return samples, nil
}
