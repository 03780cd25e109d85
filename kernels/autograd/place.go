package autograd

import (
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Place is memory for a result, beside that of others: values that were made beside each other are joined by Concat
// without a copy. Linear and Attention take one; the zero value is memory of the result's own.
type Place struct{ t *tensor.Tensor }

// Places are for results of these widths, with rows as x has them. Each is for one operation.
func (tp *Tape) Places(x *Value, widths ...int) []Place {
	sum, at := 0, 0
	for _, w := range widths {
		sum += w
	}
	whole := tp.pool.New(tp.DType, widen(x.Shape(), sum)...)
	defer whole.Free()
	places := make([]Place, len(widths))
	for i, w := range widths {
		places[i].t = whole.Columns(at, at+w)
		at += w
	}
	return places
}

// take is the place, or other memory where there is none or where the result does not fit.
func (p Place) take(tp *Tape, d kernels.DType, shape ...int) *tensor.Tensor {
	switch {
	case p.t == nil:
	case p.t.DType() == d && slices.Equal(p.t.Shape(), shape):
		return p.t
	default:
		p.Leave()
	}
	return tp.pool.New(d, shape...)
}

// Leave gives up a place that no operation took.
func (p Place) Leave() {
	if p.t != nil {
		p.t.Free()
	}
}
