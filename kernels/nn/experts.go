package nn

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// Experts are linear layers whose weights lie in one tensor, and an adapter where one was added.
type Experts struct {
	Layers []*Linear
	lora   *adapter
}

// Experts asks for one tensor that holds n linear layers' weights, [n, out, in], or [n, in, out]
// where they were multiplied from the right. Each is a parameter of its own for the engine; the
// disk, Train and Grad know the one tensor. called is the name that adapters have for it.
func (p *Params) Experts(name, called string, n, in, out int, right bool) *Experts {
	x := &Experts{Layers: p.stack(name, n, in, out, right)}
	p.root.modules = append(p.root.modules, module{name: p.name(called), experts: x})
	return x
}

// Apply computes rows that are sorted by their layer: counts of each.
func (x *Experts) Apply(tp *autograd.Tape, v *autograd.Value, counts []int) *autograd.Value {
	var some []int // the lengths of parts that are not empty
	for _, n := range counts {
		if n > 0 {
			some = append(some, n)
		}
	}
	parts := []*autograd.Value{v}
	if len(some) > 1 {
		parts = tp.Split(v, 1, some...)
	}
	made := make([]*autograd.Value, 0, len(parts))
	for i, n := range counts {
		if n > 0 {
			made = append(made, x.Layers[i].Apply(tp, parts[len(made)], autograd.With{}))
		}
	}
	y := made[0]
	if len(made) > 1 {
		y = tp.Concat(1, made...)
	}
	if x.lora.active() {
		y = tp.Add(y, x.lora.stacked(tp, v, counts))
	}
	return y
}

// stack is the layers of a stored tensor.
func (p *Params) stack(name string, n, in, out int, right bool) []*Linear {
	shape, k := []int{out, in}, matrix
	if right {
		shape, k = []int{in, out}, turned
	}
	layers := make([]*Linear, n)
	for i := range layers {
		layers[i] = &Linear{Name: fmt.Sprintf("%s.%d", p.name(name), i)}
	}
	whole, src := p.stored(name, false, fanIn(in), append([]int{n}, shape...)...)
	if whole == nil {
		return layers
	}
	r, each := p.root, len(src.Data)/n
	for i, l := range layers {
		e := &entry{name: l.Name, stored: shape, init: whole.init, of: whole}
		part := safetensors.Tensor{Name: src.Name, DType: src.DType, Shape: shape, Data: src.Data[i*each : (i+1)*each]}
		var err error
		if e.param, err = r.make(e, part, k, kernels.ConvShape{}, r.trains(whole.name)); err != nil {
			p.fail(fmt.Errorf("%s: %w", e.name, err))
			return layers
		}
		l.W = e.param
		whole.parts, r.order = append(whole.parts, e), append(r.order, e)
	}
	return layers
}

// Shape is that of a stored tensor; nil where parameters are drawn, or there is none.
func (p *Params) Shape(name string) []int {
	if p.root.Source == nil || !p.Has(name) {
		return nil
	}
	t, err := p.root.Source.Tensor(p.name(name))
	if err != nil {
		return nil
	}
	return slices.Clone(t.Shape)
}

// asStored is the name that the disk has for a parameter.
func (e *entry) asStored() string {
	if e.of != nil {
		return e.of.name
	}
	return e.name
}

// joined is the parts of a tensor, or their gradients, as one in fp32.
func (e *entry) joined(of func(part *entry) safetensors.Tensor) safetensors.Tensor {
	var all []byte
	for _, part := range e.parts {
		all = append(all, of(part).Data...)
	}
	return safetensors.Tensor{Name: e.name, DType: safetensors.F32, Shape: slices.Clone(e.stored), Data: all}
}
