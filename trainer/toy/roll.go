package toy

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/trainer"
)

// A Leg is one step of the sampler that a policy rolls with.
type Leg struct {
	Time    float64 // what the network is told
	Move    Mover
	Random  bool // whether noise is drawn, and the choice has a log-probability
	Trained bool
}

// A Mover is a step of a sampler: what trainer.Transition judges, it makes.
type Mover interface {
	trainer.Transition
	Next(state, output, noise []float64) []float64
}

// A Policy rolls the linear network along a sampler.
type Policy struct {
	*Linear
	Legs  []Leg
	Start func(k trainer.Key) []float64
	Noise func(k trainer.Key, leg int) []float64
}

// Roll is trainer.Policy's.
func (p *Policy) Roll(w trainer.Weights, keys []trainer.Key) ([]trainer.Sample, error) {
	samples := make([]trainer.Sample, len(keys))
	for i, key := range keys {
		x := slices.Clone(p.Start(key))
		if len(x)%p.D != 0 {
			return nil, fmt.Errorf("the start noise of %d numbers has no rows of %d", len(x), p.D)
		}
		samples[i].Key = key
		for k, leg := range p.Legs {
			v := p.forward(w, x, leg.Time)
			var noise []float64
			if leg.Random {
				noise = p.Noise(key, k)
			}
			next, logProb := leg.Move.Next(x, v, noise), 0.0
			if leg.Random {
				logProb = leg.Move.Judge(x, v, next).LogProb
			}
			samples[i].Decisions.Add(k, x, leg.Time, next, logProb, leg.Trained)
			x = next
		}
		samples[i].Item.Final = x
	}
	return samples, nil
}

// Transition is the leg of a step, for trainer.Decided.
func (p *Policy) Transition(step int) trainer.Transition { return p.Legs[step].Move }
