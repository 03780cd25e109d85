package optim

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Shadow is Average in the engine: it follows parameters' values at a distance.
//
//	average = average + (1-d)(value - average)
type Shadow struct {
	Of     []*autograd.Param
	Values []*tensor.Tensor
}

// NewShadow starts at the values.
func NewShadow(ps []*autograd.Param) *Shadow {
	s := &Shadow{Of: ps}
	for _, p := range ps {
		t := p.Value.Pool().Lasting(kernels.F32, p.Shape...).Named(p.Name + ", averaged")
		t.Pool().Backend().Axpby(&kernels.Axpby{A: 1, X: p.Value.Span(), Y: t.Span()})
		s.Values = append(s.Values, t)
	}
	return s
}

// Follow keeps the share decay of the average.
func (s *Shadow) Follow(decay float64) {
	for i, p := range s.Of {
		p.Value.Pool().Backend().Axpby(&kernels.Axpby{A: float32(1 - decay), B: float32(decay), X: p.Value.Span(), Y: s.Values[i].Span()})
	}
}

// Swap exchanges the averages and the values, of which neither is copied: a model that is judged or
// saved by its average is swapped, used, and swapped back.
func (s *Shadow) Swap() {
	for i, p := range s.Of {
		p.Value, s.Values[i] = s.Values[i], p.Value
		p.Updated()
	}
}

// Free gives the averages' memory back.
func (s *Shadow) Free() {
	for _, t := range s.Values {
		t.Free()
	}
}
