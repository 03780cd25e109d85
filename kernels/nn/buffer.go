package nn

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// Buffer is a stored table that is not trained and of which a model uses a part at a time (positions, of which it
// crops the part of a picture): it stays where it lies in the file.
type Buffer struct {
	t    safetensors.Tensor
	cols int
}

// Buffer asks for a table by its full name. A model without a file gets fill's result.
func (p *Params) Buffer(name string, fill func() []float32, shape ...int) *Buffer {
	r, full := p.root, p.name(name)
	if r.entries[full] != nil {
		p.fail(fmt.Errorf("%s: asked for twice", full))
		return nil
	}
	e := &entry{name: full, stored: shape, init: initial{fill: fill}}
	r.entries[full] = e
	t, err := r.read(e)
	if err == nil && t.DType != safetensors.F32 && t.DType != safetensors.BF16 && t.DType != safetensors.F16 {
		err = fmt.Errorf("%s: stored as %s; F32, F16 or BF16 was expected", full, t.DType)
	}
	if err != nil {
		p.fail(err)
		return nil
	}
	b := &Buffer{t: t, cols: shape[len(shape)-1]}
	if t.Data == nil && r.Pool.Dry() { // the table would be made, and lie in the host's memory
		n := 4
		for _, d := range shape {
			n *= d
		}
		r.Pool.Backend().Alloc(n)
	}
	r.buffers = append(r.buffers, b)
	return b
}

// Rows lo to hi-1 of the table, whose columns are its last axis.
func (b *Buffer) Rows(lo, hi int) []float32 {
	if b.t.Data == nil {
		return make([]float32, (hi-lo)*b.cols)
	}
	width := b.cols * b.t.DType.Bits() / 8
	part := b.t
	part.Shape, part.Data = []int{hi - lo, b.cols}, b.t.Data[lo*width:hi*width]
	x, err := part.Float32(nil)
	if err != nil {
		panic(err) // Buffer looked at the type
	}
	return x
}

// Tensor is the whole table as fp32, for writing.
func (b *Buffer) Tensor() safetensors.Tensor {
	return safetensors.FromF32(b.t.Name, b.t.Shape, b.Rows(0, b.t.Len()/b.cols))
}

// Constant is a value of the model's own, not stored and not trained, for operations that
// take a parameter; it is freed with the parameters.
func (p *Params) Constant(name string, x []float32, shape ...int) *autograd.Param {
	w := autograd.NewParam(name, p.root.Pool.FromF32(kernels.F32, x, shape...).Named(name), false)
	p.root.fixed = append(p.root.fixed, w)
	return w
}
