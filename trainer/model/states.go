package model

import (
	"slices"
	"sync"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/optim"
)

// Card: where the states of trained parameters lie (run.states): their fp32 values, the averages of their gradients,
// and other sets of weights.
//
//	device   each device has all of them, and moves its own copy
//	ranks    each parameter has an owner among the devices, which alone has its states
//	host     they lie in the host's memory, and the CPU's kernels move them
//
// In the last two, every device computes with a copy: of a matrix that products alone read in bf16 the packed form,
// 2 bytes a number, and of other parameters fp32 values. An update goes
//
//	gradients are added up where their owner is (exchange.Reduction), and freed elsewhere
//	the owner takes the step, or brings the gradient to the host in pieces, where the CPU takes it
//	every device copies the parameters that moved from where they lie, one after another
//
// So an update of S bytes of gradient moves (W-1)/W S to each of W devices as gradients and at most as much as values.
// Another set of weights, or a checkpoint, is read from where it lies: no device keeps a second set.
//
// Invariants (tests in trainer/run): a run's bytes are those of "device", on any number of devices with run.shards;
// a checkpoint's do not say where its states lay.

// States is where the states of a run's trained parameters lie: one value for all devices.
type States struct {
	Home  nn.Home // Ranks or Host
	Lines exchange.Lines

	ranks    int
	host     *tensor.Pool     // of Host
	owner    []int            // of each parameter, a rank
	masters  []*tensor.Tensor // the parameters' values, wherever they lie
	learners []*Learner       // by rank
	dry      *hostCounter
	moving   sync.Mutex // of the host's backend, which one rank uses at a time
}

// NewStates is for a run on a number of devices; nil where each device has all. host moves states of Host.
func NewStates(home nn.Home, ranks int, host kernels.Backend) *States {
	if home == nn.Device || home == nn.Ranks && ranks == 1 {
		return nil
	}
	s := &States{Home: home, ranks: ranks, learners: make([]*Learner, ranks)}
	if home == nn.Host {
		s.host = tensor.NewPool(host)
	}
	return s
}

// DryStates counts the memory of the rank that owns most.
func DryStates(home nn.Home, ranks int, dry Dry) *States {
	s := NewStates(home, ranks, nil)
	if s != nil && home == nn.Host {
		s.dry = &hostCounter{Dry: dry}
		s.host = tensor.NewPool(s.dry)
	}
	return s
}

// HostBytes is the host's memory that a dry run counted.
func (s *States) HostBytes() int64 {
	if s == nil || s.dry == nil {
		return 0
	}
	return s.dry.peak
}

// hostCounter counts memory of the host beside that of a dry device.
type hostCounter struct {
	Dry
	now, peak int64
}

func (c *hostCounter) ComputesNothing() {}

func (c *hostCounter) Alloc(n int) *kernels.Buffer {
	c.now += int64(n)
	c.peak = max(c.peak, c.now)
	return &kernels.Buffer{Bytes: n}
}

func (c *hostCounter) Free(b *kernels.Buffer) { c.now -= int64(b.Bytes) }

// A Place is a device's part in the states of its run.
type Place struct {
	States *States // nil: each device has all
	Rank   int
}

// Owners are the ranks that have the states of the first parameters that move; nil: all ranks have all.
func (s *States) Owners() []int {
	if s == nil {
		return nil
	}
	return s.owner
}

// dealt are the owners of parameters: the largest first, to the rank that has least.
func dealt(params []*autograd.Param, ranks int) []int {
	order, owner, load := make([]int, len(params)), make([]int, len(params)), make([]int, ranks)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return params[b].Len() - params[a].Len() })
	for _, i := range order {
		least := slices.Index(load, slices.Min(load))
		owner[i] = least
		load[least] += params[i].Len()
	}
	return owner
}

// join brings the states of a learner's parameters to their places. values are those of the parameters that this rank
// moves, and nil for the others.
func (s *States) join(w *Learner, rank int) (values []*tensor.Tensor) {
	dry := w.params[0].Pool().Dry()
	if s.owner == nil {
		s.owner, s.masters = dealt(w.params, s.ranks), make([]*tensor.Tensor, len(w.params))
		if dry && s.Home == nn.Host { // which is counted whole
			clear(s.owner)
		}
	}
	w.states, w.rank = s, rank
	if dry && s.Home == nn.Ranks {
		w.rank = s.heaviest(w.params)
	}
	s.learners[w.rank] = w
	values = make([]*tensor.Tensor, len(w.params))
	for i, p := range w.params {
		own := s.owner[i] == w.rank
		if own {
			values[i] = s.master(p)
			s.masters[i] = values[i]
		}
		if p.Packs() && !(own && s.Home == nn.Ranks) {
			p.Part()
		}
	}
	return values
}

// heaviest is the rank that owns most.
func (s *States) heaviest(params []*autograd.Param) int {
	load := make([]int, s.ranks)
	for i, p := range params {
		load[s.owner[i]] += p.Len()
	}
	return slices.Index(load, slices.Max(load))
}

// master is where a parameter's values lie from now on.
func (s *States) master(p *autograd.Param) *tensor.Tensor {
	if s.Home == nn.Ranks {
		return p.Value
	}
	t := s.host.Lasting(kernels.F32, p.Shape...).Named(p.Name)
	if !s.host.Dry() {
		s.Lines.Copy(s.host.Backend(), t.Span(), p.Pool().Backend(), p.Value.Span())
	}
	return t
}

// meet lets the optimisers of all ranks know each other.
func (s *States) meet() {
	var all []*optim.Optimizer
	for _, w := range s.learners {
		if w == nil {
			return
		}
		all = append(all, w.mover)
	}
	for _, w := range s.learners {
		w.mover.Ranks = all
	}
}

// at are the values of a parameter in a set of weights, where they lie.
func (s *States) at(of trainer.Weights, i int) *tensor.Tensor {
	if of == trainer.Current {
		return s.masters[i]
	}
	if w := s.learners[s.owner[i]]; w != nil {
		return w.others[of].Values[i]
	}
	return nil // of a rank that a dry run does not have
}

// show loads a set of weights into the network, for the parameters that which selects.
func (w *Learner) show(of trainer.Weights, which func(i int) bool) {
	for i := range w.params {
		if which(i) {
			w.bring(i, w.states.at(of, i))
		}
	}
	w.pool().Backend().Sync() // an owner may move its values from now on
}

func all(int) bool { return true }

// alone does work on states that no other rank's disturbs, and waits until they are written.
func (w *Learner) alone(f func()) {
	if s := w.states; s != nil {
		if s.Home == nn.Host {
			s.moving.Lock()
			defer s.moving.Unlock()
		}
		defer w.pool().Backend().Sync()
	}
	f()
}

// reduced counts the memory of a piece of the gradient, where several devices add it up.
func (w *Learner) reduced() {
	if s := w.states; s != nil && s.ranks > 1 && w.pool().Dry() {
		be := w.pool().Backend()
		be.Free(be.Alloc(exchange.Room(s.ranks)))
	}
}

// bring makes values those that the network computes with.
func (w *Learner) bring(i int, from *tensor.Tensor) {
	p := w.params[i]
	if w.states.Home == nn.Ranks && w.states.owner[i] == w.rank {
		p.Value = from
		p.Updated()
		return
	}
	if p.Value != nil {
		w.copy(p.Value, from)
		p.Updated()
		return
	}
	t := p.Pool().New(kernels.F32, p.Shape...)
	defer t.Free()
	w.copy(t, from)
	p.Set(t)
}

// copy copies to the device, where anything is computed.
func (w *Learner) copy(to, from *tensor.Tensor) {
	if be := to.Pool(); !be.Dry() {
		w.states.Lines.Copy(be.Backend(), to.Span(), from.Pool().Backend(), from.Span())
	}
}

func (w *Learner) pool() *tensor.Pool { return w.params[0].Pool() }

// Refresh copies the parameters that the last Move moved from their owners, on a run of several devices after all of
// them have moved.
func (w *Learner) Refresh() {
	if w.states != nil {
		w.show(trainer.Current, func(i int) bool {
			return w.mover.HasMoved(i) && !(w.states.Home == nn.Ranks && w.states.owner[i] == w.rank)
		})
	}
}

// Measure prepares this rank's part of Norm.
func (w *Learner) Measure() {
	if w.states != nil {
		w.mover.Measure()
	}
}

// Release forgets the gradients of parameters where other ranks move them.
func (s *States) Release() {
	if s == nil {
		return
	}
	for _, w := range s.learners {
		for i, p := range w.params {
			if s.owner[i] != w.rank {
				p.ZeroGrad()
			}
		}
	}
}

// Whole runs f while the device has the fp32 values of all parameters that move.
func (w *Learner) Whole(f func() error) error {
	if w == nil || w.states == nil {
		return f()
	}
	for i, p := range w.params {
		if p.Value != nil {
			continue
		}
		t := p.Pool().Lasting(kernels.F32, p.Shape...)
		w.copy(t, w.states.at(trainer.Current, i))
		p.Value = t
		defer func() {
			p.Value = nil
			t.Free()
		}()
	}
	return f()
}

// set makes a tensor of a checkpoint the current values of a parameter.
func (w *Learner) set(i int, f *safetensors.File, name string) error {
	p, to := w.params[i], w.params[i].Value
	if to == nil {
		to = p.Pool().New(kernels.F32, p.Shape...)
		defer to.Free()
	}
	places := []*tensor.Tensor{to}
	if s := w.states; s != nil && s.owner[i] == w.rank && s.masters[i] != to {
		places = append(places, s.masters[i])
	}
	if err := read(f, name, places...); err != nil {
		return err
	}
	if p.Value == nil {
		p.Set(to)
	} else {
		p.Updated()
	}
	return nil
}

// values are those of a set of weights: the parameters' own, or another set's.
func (w *Learner) values(of trainer.Weights, i int) *tensor.Tensor {
	switch {
	case w.states != nil:
		return w.states.at(of, i)
	case of == trainer.Current:
		return w.params[i].Value
	}
	return w.others[of].Values[i]
}

// free gives the host's memory back.
func (s *States) free(rank int) {
	for i, t := range s.masters {
		if s.Home == nn.Host && s.owner[i] == rank && t != nil {
			t.Free()
			s.masters[i] = nil
		}
	}
}

// StatesOf are the homes of states that an experiment may take, the fastest first: the one that it names.
func StatesOf(e *experiment.Experiment) (all []nn.Home) {
	if e.Run.States != nil {
		home, _ := nn.HomeNamed(*e.Run.States) // whose name was checked when the file was read
		return []nn.Home{home}
	}
	all = []nn.Home{nn.Device}
	if _, adapted := e.Model.Trained(); adapted {
		return all // whose states are small
	}
	if len(e.Run.Devices()) > 1 || e.Run.TokenShares() > 1 {
		all = append(all, nn.Ranks)
	}
	if Apart(e) {
		all = append(all, nn.Host)
	}
	return all
}

// StatesAt is where states lie: where the experiment says, or else the fit.
func (f Fit) StatesAt(e *experiment.Experiment) nn.Home {
	if e.Run.States != nil {
		return StatesOf(e)[0]
	}
	return f.StatesHome
}
