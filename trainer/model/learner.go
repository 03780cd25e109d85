package model

import (
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/optim"
)

// A Learner is a policy's trained parameters, and the sets of weights that it switches between. It is trainer.Params.
type Learner struct {
	adapters []*nn.Adapters // of each network; none where parameters of the model itself are trained
	params   []*autograd.Param
	mover    *optim.Optimizer
	others   map[trainer.Weights]*optim.Shadow

	states *States // nil: the device has all states
	rank   int
	own    []*tensor.Tensor // the values that this rank moves, nil for the others; nil: the parameters' own

	foreign bool // other weights than the current ones may be in the model: all of them, or some
}

// A Part is the trained parameters of one network.
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
// updates. at says where the states lie.
func NewLearner(o optim.Options, needs []trainer.Weights, at Place, parts ...Part) (*Learner, error) {
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
	if at.States != nil {
		w.own = at.States.join(w, at.Rank)
		rest := w.own
		for i := range groups {
			n := len(groups[i].Params)
			groups[i].Values, rest = rest[:n:n], rest[n:]
		}
	}
	w.mover = optim.NewOptimizer(0, groups...)
	if at.States != nil {
		w.mover.Lines = &at.States.Lines
		at.States.meet()
	}
	for _, n := range needs {
		if n == trainer.Reference && w.adapters != nil {
			continue // the model without its adapter
		}
		w.others[n] = w.shadow()
	}
	return w, nil
}

// shadow is another set of weights, as the current ones are.
func (w *Learner) shadow() *optim.Shadow {
	if w.states == nil {
		return optim.NewShadow(w.params)
	}
	return optim.NewShadowOf(w.params, w.own)
}

// With runs f under a set of weights. A nil Learner has the current ones alone.
func (w *Learner) With(s trainer.Weights, f func() error) error {
	w.Settled()
	if s == trainer.Current {
		return f()
	}
	if w == nil {
		return errors.New("other weights than the current ones were asked for, and nothing is trained")
	}
	if o := w.others[s]; o != nil && w.states != nil {
		w.foreign = true
		w.show(s, all)
		err := f()
		w.Settled()
		return err
	} else if o != nil {
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

// Settled brings the current weights back after a panic among others: where memory ran out, it is free by then. A nil
// Learner has no others.
func (w *Learner) Settled() {
	if w != nil && w.foreign {
		w.show(trainer.Current, all)
		w.foreign = false
	}
}

// adapt switches the adapters.
func (w *Learner) adapt(on bool) {
	for _, a := range w.adapters {
		a.On = on
	}
}

// Norm is the length of the gathered gradient.
func (w *Learner) Norm() (float64, error) { return w.mover.Norm(), nil }

// Move takes a step of AdamW along the gradient times scale, and forgets the gradient. Where several devices share
// states, Refresh comes after all of them have moved.
func (w *Learner) Move(scale, rate float64) {
	w.reduced()
	w.alone(func() { w.mover.Move(scale, rate) })
	if w.states != nil && (w.states.ranks == 1 || w.pool().Dry()) {
		w.Refresh()
	}
}

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
		w.alone(func() { s = w.shadow() }) // a reference that is reset for the first time
		w.others[to] = s
	}
	w.alone(func() { s.Follow(decay) })
}

// age moves each of the lagged weights to the next younger ones, and the youngest to the current ones.
func (w *Learner) age() {
	oldest, at := w.others[trainer.Lagged], trainer.Lagged
	for ; w.others[at+1] != nil; at++ {
		w.others[at] = w.others[at+1]
	}
	w.others[at] = oldest
	w.alone(func() { oldest.Follow(0) })
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

// Settle begins a stage: the optimiser has its options from now on, and parameters outside of moves stay.
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
	if w.states != nil {
		w.states.free(w.rank)
	}
}

// Needed are the sets of weights that any iteration needs beside the current ones.
func Needed(e *experiment.Experiment) []trainer.Weights {
	asked := map[trainer.Weights]bool{}
	for _, at := range e.EachStage() {
		kl, kind := at.Loss.KL, at.Kind()
		compared := kl.Weight > 0 || kind.Has(loss.Reference)
		if compared && (kl.Reference == "base" || kl.Reference == "stage") {
			asked[trainer.Reference] = true
		}
		if kind.Has(loss.OldWeights) || compared && kl.Reference == "old" && kind.OfFinished() {
			asked[trainer.Old] = true
		}
		if at.Optim.EMA > 0 {
			asked[Average(at)] = true
		}
	}
	var all []trainer.Weights
	for _, w := range []trainer.Weights{trainer.Reference, trainer.Old, trainer.Average} {
		if asked[w] {
			all = append(all, w)
		}
	}
	if lag := trainer.Weights(e.Run.Lag); lag > 0 {
		for d := range lag + 1 {
			all = append(all, trainer.Lagged+d)
		}
	}
	return all
}

// Actor is whose samples are learned from.
func Actor(e *experiment.Experiment) trainer.Weights {
	if e.Run.Lag > 0 {
		return trainer.Lagged
	}
	return trainer.Current
}

// Average is which weights optim.ema makes. Old weights that follow at its pace are the average.
func Average(e *experiment.Experiment) trainer.Weights {
	if e.Kind().Has(loss.OldFollows) {
		return trainer.Old
	}
	return trainer.Average
}

// Pace is how a set of weights follows: at the pace of optim.ema, or at once.
func Pace(e *experiment.Experiment, w trainer.Weights) optim.Pace {
	if e.Optim.EMA > 0 && w == Average(e) {
		return e.Optim.Pace()
	}
	return optim.Pace{Shape: optim.Decay{Kind: "constant"}, Every: 1}
}

// Anchor is which weights loss.kl compares with; Current where it is the loss's own choice.
func Anchor(settings experiment.Settings) trainer.Weights {
	switch {
	case settings.Loss.KL.Reference == "teacher":
		return trainer.Teacher
	case settings.Loss.KL.Reference == "ema":
		return Average(settings.Experiment)
	case settings.Loss.KL.Reference == "old" && settings.Noised():
		return trainer.Old // decisions have their log-probabilities
	}
	return trainer.Current
}

// How a checkpoint holds a learner, under names that begin with a prefix:
//
//	weights.K        the K-th parameter that moves
//	others.W.K       the same of another set of weights, W as trainer.Weights numbers it
//	optimiser.*      the optimiser's averages

// TensorsFile is the file of a checkpoint that has them. EMA is the folder beside it that has the adapter's moving
// average.
const (
	TensorsFile = "state.safetensors"
	EMA         = "ema"
)

// Prefix begins the names of a set's weights.
func Prefix(of trainer.Weights) string {
	if of == trainer.Current {
		return "weights."
	}
	return fmt.Sprintf("others.%d.", of)
}

// Tensors are a learner's, each of which is made when it is written: of a whole network they are several times its
// size.
func (w *Learner) Tensors(prefix string) []safetensors.Tensor {
	var all []safetensors.Tensor
	for i, p := range w.params {
		all = append(all, safetensors.ReadF32(fmt.Sprintf("%s%s%d", prefix, Prefix(trainer.Current), i), p.Shape, w.values(trainer.Current, i).DownloadPart))
	}
	for of := range w.others {
		for i, p := range w.params {
			all = append(all, safetensors.ReadF32(fmt.Sprintf("%s%s%d", prefix, Prefix(of), i), p.Shape, w.values(of, i).DownloadPart))
		}
	}
	return append(all, w.mover.Tensors(prefix+"optimiser.")...)
}

// Load goes back to a checkpoint's.
func (w *Learner) Load(f *safetensors.File, prefix string) error {
	if err := w.Take(f, prefix); err != nil {
		return err
	}
	for of, s := range w.others {
		for i, v := range s.Values {
			if v == nil {
				continue // another rank's
			}
			if err := read(f, fmt.Sprintf("%s%s%d", prefix, Prefix(of), i), v); err != nil {
				return err
			}
		}
	}
	return w.mover.Load(f, prefix+"optimiser.")
}

// Values are those of a set of weights, under the names that the current ones have in a checkpoint.
func (w *Learner) Values(of trainer.Weights, prefix string) (all []safetensors.Tensor, err error) {
	if of == trainer.Reference && w.others[of] == nil {
		return nil, errors.New("the reference is the model without its adapter, and has no values of its own")
	}
	if w.states != nil {
		for i, p := range w.params {
			all = append(all, safetensors.FromF32(fmt.Sprintf("%s%s%d", prefix, Prefix(trainer.Current), i), p.Shape, w.values(of, i).F32()))
		}
		return all, nil
	}
	err = w.With(of, func() error {
		for i, p := range w.params {
			all = append(all, safetensors.FromF32(fmt.Sprintf("%s%s%d", prefix, Prefix(trainer.Current), i), p.Shape, p.Value.F32()))
		}
		return nil
	})
	return all, err
}

// In reports whether a file has such values.
func (w *Learner) In(f *safetensors.File, prefix string) bool {
	_, there := f.Info(prefix + Prefix(trainer.Current) + "0")
	return there
}

// Take makes such values those of the current weights.
func (w *Learner) Take(f *safetensors.File, prefix string) error {
	for i := range w.params {
		if err := w.set(i, f, fmt.Sprintf("%s%s%d", prefix, Prefix(trainer.Current), i)); err != nil {
			return err
		}
	}
	return nil
}

// Bytes are about the size of a checkpoint of the learner: weights, two averages of their gradients, other weights,
// and the adapter once more for other programs.
func (w *Learner) Bytes() int64 {
	n := 0
	for _, p := range w.params {
		n += p.Len()
	}
	return int64(n) * 4 * int64(3+len(w.others)+1)
}

// read copies a tensor of a file, piece by piece, to each of places of one size.
func read(f *safetensors.File, name string, to ...*tensor.Tensor) error {
	return safetensors.Floats(f, name, to[0].Len(), func(x []float32, from int) {
		for _, t := range to {
			t.UploadPart(x, from)
		}
	})
}
