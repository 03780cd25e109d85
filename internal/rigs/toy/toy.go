// Package toy is a policy that is small enough to be followed by hand: a linear
// network in float64 that denoises a few numbers. It takes part in training as a
// real model does, so the trainer's updates can be compared with recorded
// iterations of other implementations, digit by digit.
package toy

import (
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/optim"
)

// Linear is the network v(x, s) = A x + b s + c, on every row of D numbers of a
// state, with s the time. Its weights are flat: [A row-major, b, c].
type Linear struct {
	D int

	sets  [3][]float64 // by trainer.Weights
	grad  []float64
	adam  *optim.AdamW
	Moves []Move // the changes of the weights so far
}

// A Move is one step of the optimiser.
type Move struct {
	Grad  []float64 // before it was clipped
	After []float64 // the weights
}

// NewLinear starts all three sets of weights at the same numbers.
func NewLinear(d int, weights []float64, o optim.Options) (*Linear, error) {
	if d < 1 || len(weights) != d*d+2*d {
		return nil, fmt.Errorf("a linear policy of rows of %d has %d weights, not %d", d, d*d+2*d, len(weights))
	}
	l := &Linear{D: d, grad: make([]float64, len(weights)), adam: optim.NewAdamW(o, len(weights))}
	for i := range l.sets {
		l.sets[i] = slices.Clone(weights)
	}
	return l, nil
}

// Weights is a copy of a set.
func (l *Linear) Weights(w trainer.Weights) []float64 { return slices.Clone(l.sets[w]) }

// forward is v(x, s).
func (l *Linear) forward(w trainer.Weights, x []float64, s float64) []float64 {
	d, t := l.D, l.sets[w]
	v := make([]float64, len(x))
	for i := range x {
		row, r := i/d*d, i%d
		for k := range d {
			v[i] += t[r*d+k] * x[row+k]
		}
		v[i] += t[d*d+r]*s + t[d*d+d+r]
	}
	return v
}

// backward adds the gradient of the weights, given that at v.
func (l *Linear) backward(x []float64, s float64, dv []float64) {
	d := l.D
	for i, g := range dv {
		row, r := i/d*d, i%d
		for k := range d {
			l.grad[r*d+k] += g * x[row+k]
		}
		l.grad[d*d+r] += g * s
		l.grad[d*d+d+r] += g
	}
}

// Eval implements trainer.Policy.
func (l *Linear) Eval(w trainer.Weights, at []trainer.Point) (trainer.Forward, error) {
	var a trainer.Forward
	for _, p := range at {
		if len(p.State)%l.D != 0 {
			return a, fmt.Errorf("a state of %d numbers has no rows of %d", len(p.State), l.D)
		}
		a.Outputs = append(a.Outputs, l.forward(w, p.State, p.Time))
	}
	if w != trainer.Current {
		return a, nil
	}
	a.Back = func(grads [][]float64) error {
		if len(grads) != len(at) {
			return fmt.Errorf("%d gradients for %d answers", len(grads), len(at))
		}
		for i, p := range at {
			l.backward(p.State, p.Time, grads[i])
		}
		return nil
	}
	return a, nil
}

// Params implements trainer.Policy.
func (l *Linear) Params() trainer.Params { return l }

// Norm is trainer.Params'.
func (l *Linear) Norm() (float64, error) {
	sum := 0.0
	for _, g := range l.grad {
		sum += float64(g * g)
	}
	return math.Sqrt(sum), nil
}

// Move is trainer.Params'.
func (l *Linear) Move(scale, rate float64) {
	m := Move{Grad: slices.Clone(l.grad)}
	for i := range l.grad {
		l.grad[i] *= scale
	}
	l.adam.Step(l.sets[trainer.Current], l.grad, rate)
	clear(l.grad)
	m.After = l.Weights(trainer.Current)
	l.Moves = append(l.Moves, m)
}

// Skip is trainer.Params'.
func (l *Linear) Skip() { clear(l.grad) }

// Follow is trainer.Params'.
func (l *Linear) Follow(w trainer.Weights, decay float64) {
	for i, now := range l.sets[trainer.Current] {
		l.sets[w][i] += (1 - decay) * (now - l.sets[w][i])
	}
}

// Distance is a reward: minus the mean squared distance of a state's rows from a
// target row.
func Distance(state, target []float64) float64 {
	sum := 0.0
	for i, x := range state {
		sum += portable.Pow(x-target[i%len(target)], 2)
	}
	return -sum / float64(len(state))
}

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
			State: t.States[:len(p.Rows)], Action: t.States[1:]}
		for step := range p.Rows {
			d.Step, d.Trained = append(d.Step, step), append(d.Trained, slices.Contains(p.Trained, step))
		}
		samples[i].Item.Final = t.States[len(p.Rows)]
	}
	return samples, nil
}
