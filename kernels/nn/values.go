package nn

import (
	"fmt"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Parameters for writers and readers of gradients.

// Tensors are the trained parameters whose names begin with prefix, in fp32 and in the
// shapes of the disk, for writing.
func (p *Params) Tensors() []safetensors.Tensor {
	var all []safetensors.Tensor
	for _, e := range p.root.order {
		switch {
		case !e.param.Trained || !strings.HasPrefix(e.name, p.prefix):
		case e.of == nil:
			all = append(all, e.export(e.name, e.param.Value))
		case e == e.of.parts[0]:
			all = append(all, e.of.joined(func(part *entry) safetensors.Tensor { return part.export(part.name, part.param.Value) }))
		}
	}
	return all
}

// Stored is every parameter and table in fp32, in the shapes of the disk: the content of a model's folder. All
// parameters must be trained ones; a frozen weight exists in packed form alone.
func (p *Params) Stored() ([]safetensors.Tensor, error) {
	for _, e := range p.root.order {
		if !e.param.Trained && strings.HasPrefix(e.name, p.prefix) {
			return nil, fmt.Errorf("%s is frozen: only trained parameters can be written", e.name)
		}
	}
	all := p.Tensors()
	for _, b := range p.root.buffers {
		if strings.HasPrefix(b.t.Name, p.prefix) {
			all = append(all, b.Tensor())
		}
	}
	return all, nil
}

// Requested are the names that the model has requested so far, with the shapes that it expects on the disk.
func (p *Params) Requested() map[string][]int {
	all := map[string][]int{}
	for name, e := range p.root.entries {
		if strings.HasPrefix(name, p.prefix) {
			all[name] = slices.Clone(e.stored)
		}
	}
	return all
}

// Set gives a trained parameter other values: f gets them in the order of the disk, and changes them.
func (p *Params) Set(name string, f func(x []float32)) error {
	e := p.root.entries[p.name(name)]
	if e == nil || e.param == nil || !e.param.Trained || e.turned || e.frames > 0 || e.param.Conv.KH*e.param.Conv.KW > 1 {
		return fmt.Errorf("%s: the model has no such trained parameter in the order of the disk", p.name(name))
	}
	x := e.param.Value.F32()
	f(x)
	e.param.Value.UploadF32(x)
	e.param.Updated()
	return nil
}

// Grad is the gradient of a trained parameter, in the shape of the disk; zeros where
// nothing reached it.
func (p *Params) Grad(name string) (safetensors.Tensor, error) {
	e := p.root.entries[p.name(name)]
	if e != nil && len(e.parts) > 0 {
		return e.joined(func(part *entry) safetensors.Tensor { return part.export(part.name, part.param.AnyGrad()) }), nil
	}
	switch {
	case e == nil || e.param == nil:
		return safetensors.Tensor{}, fmt.Errorf("%s: the model has no such parameter", p.name(name))
	case !e.param.Trained:
		return safetensors.Tensor{}, fmt.Errorf("%s: it is not trained", e.name)
	case e.param.Grad() == nil:
		n := 1
		for _, d := range e.stored {
			n *= d
		}
		return safetensors.FromF32(e.name, e.stored, make([]float32, n)), nil
	}
	return e.export(e.name, e.param.Grad()), nil
}

// OnDisk is the i-th trained parameter with the values x, under the name and in the shape of the disk. The
// values are in the order of the engine, as the parameter's own are. The model may lie on a backend that
// computes nothing; pool lies on one that computes.
func (p *Params) OnDisk(pool *tensor.Pool, i int, x []float32) (safetensors.Tensor, error) {
	for _, e := range p.root.order {
		if !e.param.Trained {
			continue
		}
		if i--; i >= 0 {
			continue
		}
		if n := product(e.param.Shape); n != len(x) {
			return safetensors.Tensor{}, fmt.Errorf("%s: the model has %d numbers, and there are %d", e.name, n, len(x))
		}
		t := pool.FromF32(kernels.F32, x, e.param.Shape...)
		defer t.Free()
		return e.export(e.name, t), nil
	}
	return safetensors.Tensor{}, fmt.Errorf("the model trains fewer parameters than there are weights")
}
