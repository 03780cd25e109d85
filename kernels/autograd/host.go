package autograd

import "github.com/darkroom-rl/darkroom/kernels/tensor"

// Host is an operation that plain Go computes in the host's memory: one that no backend has, as
// recurrences over tokens. On a device its operands and its result travel. Numbers are fp32, and
// the result is rounded to the type of activations.
//
// What Forward and Backward read is theirs for the call alone. Samples' gradients of parameters are
// added to sums one after another, in the samples' order: the size of a batch then changes no bit.
type Host struct {
	Name    string
	In      []*Value
	Params  []*Param
	Shape   []int
	Forward func(in, params [][]float32) []float32
	// Backward gives the gradients of In (nil for one that is not needed), and adds those of Params
	// to sums, whose entries are nil for parameters that are not trained.
	Backward func(in, params [][]float32, dy []float32, sums [][]float32) [][]float32
}

// Host computes h, and records it.
func (tp *Tape) Host(h Host) *Value {
	y := tp.result(h.Name, tp.pool.New(tp.DType, h.Shape...), h.In...).needsParam(h.Params...)
	y.segments, y.batch = nil, 0
	if !tp.pool.Dry() {
		y.t.UploadF32(h.Forward(h.values(nil), h.params()))
	}
	n := tp.record(y)
	if n == nil {
		return y
	}
	for _, x := range h.In {
		n.save(x.t)
	}
	n.back = func() { tp.hostBackward(h, n, y) }
	return y
}

// values are the operands' numbers: of the saved memory, where a backward reads them.
func (h Host) values(saved *node) [][]float32 {
	all := make([][]float32, len(h.In))
	for i, x := range h.In {
		if saved != nil {
			all[i] = saved.saved[i].F32()
		} else {
			all[i] = x.F32()
		}
	}
	return all
}

func (h Host) params() [][]float32 {
	all := make([][]float32, len(h.Params))
	for i, p := range h.Params {
		all[i] = p.Value.F32()
	}
	return all
}

func (tp *Tape) hostBackward(h Host, n *node, y *Value) {
	sums, stored := make([][]float32, len(h.Params)), make([]*tensor.Tensor, len(h.Params))
	for i, p := range h.Params {
		if p.wantsGrad() {
			tp.sum(p)
			stored[i] = p.sums[tp.uses[p]-1]
			sums[i] = stored[i].F32()
		}
	}
	grads := make([][]float32, len(h.In))
	if !tp.pool.Dry() {
		grads = h.Backward(h.values(n), h.params(), y.grad.F32(), sums)
	}
	for i, s := range stored {
		if s != nil {
			s.UploadF32(sums[i])
		}
	}
	for i, x := range h.In {
		if dx := tp.needed(x); dx != nil {
			if grads[i] != nil {
				dx.UploadF32(grads[i])
			}
			tp.give(x, dx)
		}
	}
}
