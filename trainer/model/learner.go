package model

import (
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/optim"
)

// A Learner is what of a policy is trained, and the sets of weights that it switches between. It
// is trainer.Params.
type Learner struct {
	adapters []*nn.Adapters // of each network; none where parameters of the model itself are trained
	params   []*autograd.Param
	mover    *optim.Optimizer
	others   map[trainer.Weights]*optim.Shadow
}

// A Part is what is trained of one network.
type Part struct {
	Name    string // put with a dot before the names of its parameters; "": of the only network, or the first
	Params  []*autograd.Param
	Adapter *nn.Adapters // that the parameters are of; nil: they are the network's own
}

// Second is the Name of a second network that takes turns with the first, and the folder of its adapter, as diffusers
// calls the network.
const Second = "transformer_2"

// Names are the parameters'.
func (p Part) Names() (all []string) {
	for _, w := range p.Params {
		all = append(all, optim.Named(p.Name, w.Name))
	}
	return all
}

// NewLearner trains parts of a model, and keeps the other sets of weights that are needed. Each part counts its own
// updates.
func NewLearner(o optim.Options, needs []trainer.Weights, parts ...Part) (*Learner, error) {
	w := &Learner{others: map[trainer.Weights]*optim.Shadow{}}
	var groups []optim.Group
	for _, p := range parts {
		if len(p.Params) == 0 {
			continue
		}
		if w.params = append(w.params, p.Params...); p.Adapter != nil {
			w.adapters = append(w.adapters, p.Adapter)
		}
		groups = append(groups, optim.Group{Name: p.Name, Params: p.Params, Rate: 1, Options: o})
	}
	if len(w.params) == 0 {
		return nil, errors.New("nothing is trained: no adapter, and no parameter of the model")
	}
	w.mover = optim.NewOptimizer(0, groups...)
	for _, n := range needs {
		if n == trainer.Reference && w.adapters != nil {
			continue // the model without its adapter
		}
		w.others[n] = optim.NewShadow(w.params)
	}
	return w, nil
}

// With runs f under a set of weights. A nil Learner has the current ones alone.
func (w *Learner) With(s trainer.Weights, f func() error) error {
	if s == trainer.Current {
		return f()
	}
	if w == nil {
		return errors.New("other weights than the current ones were asked for, and nothing is trained")
	}
	if o := w.others[s]; o != nil {
		o.Swap()
		defer o.Swap()
		return f()
	}
	if s != trainer.Reference || w.adapters == nil {
		return fmt.Errorf("weights %d are not kept", s)
	}
	w.adapt(false)
	defer w.adapt(true)
	return f()
}

// adapt switches the adapters.
func (w *Learner) adapt(on bool) {
	for _, a := range w.adapters {
		a.On = on
	}
}

// Norm is the length of the gathered gradient.
func (w *Learner) Norm() (float64, error) { return w.mover.Norm(), nil }

// Move takes a step of AdamW along the gradient times scale, and forgets the gradient.
func (w *Learner) Move(scale, rate float64) { w.mover.Move(scale, rate) }

// Skip forgets the gradient: the weights stay as they are.
func (w *Learner) Skip() { w.mover.Skip() }

// Follow moves other weights towards the current ones.
func (w *Learner) Follow(to trainer.Weights, decay float64) {
	if to == trainer.Lagged {
		w.age()
		return
	}
	s := w.others[to]
	if s == nil {
		s = optim.NewShadow(w.params) // a reference that is reset for the first time
		w.others[to] = s
	}
	s.Follow(decay)
}

// age lets each of the lagged weights be what the next younger ones were, and the youngest the current ones.
func (w *Learner) age() {
	oldest, at := w.others[trainer.Lagged], trainer.Lagged
	for ; w.others[at+1] != nil; at++ {
		w.others[at] = w.others[at+1]
	}
	w.others[at] = oldest
	oldest.Follow(0)
}

// Forget drops other weights: the reference, until it is reset again, is the model without its
// adapter.
func (w *Learner) Forget(of trainer.Weights) error {
	s := w.others[of]
	if s == nil {
		return nil
	}
	if of != trainer.Reference || w.adapters == nil {
		return fmt.Errorf("weights %d cannot be dropped: nothing else has them", of)
	}
	s.Free()
	delete(w.others, of)
	return nil
}

// Moved are the parameters that move.
func (w *Learner) Moved() []*autograd.Param { return w.params }

// Settle begins a stage: the optimiser has its options from now on, and what moves does not move stays.
func (w *Learner) Settle(o optim.Options, moves experiment.Moves) {
	w.mover.Set(o)
	w.mover.Hold(func(name string) bool { return !moves.Has(name) })
}

// Keeps reports whether other weights have a copy of their own.
func (w *Learner) Keeps(of trainer.Weights) bool { return w.others[of] != nil }

// Free gives all memory back.
func (w *Learner) Free() {
	if w == nil {
		return
	}
	w.mover.Free()
	for _, s := range w.others {
		s.Free()
	}
}
