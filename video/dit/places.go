package dit

import (
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// Places of tokens turn queries and keys: a head is parted into frames, rows and columns, the last
// two of n = 2·floor(dim/6) numbers each, the first of the rest, and for each axis
//
//	angle[i] = place / 10000^(2i/n), i = 0 ... n/2-1
//
// turns the elements 2i and 2i+1 of its part. Angles are float64, their cosines and sines fp32, as
// upstream computes them. Before diffusers 0.36 the parts were dim/3 each: the same for published
// sizes.

// axes are the numbers of a head that each axis turns.
func (c Config) axes() [3]int {
	side := 2 * (c.HeadDim / 6)
	return [3]int{c.HeadDim - 2*side, side, side}
}

// rotations are the cosines and sines [t·h·w, HeadDim/2] of a grid of tokens.
func (c Config) rotations(t, h, w int) (cos, sin []float32) {
	var tables [3][2][][]float32
	for axis, n := range c.axes() {
		for place := range [3]int{t, h, w}[axis] {
			co, si := make([]float32, n/2), make([]float32, n/2)
			for i := range co {
				s, c := nn.Sincos(float64(place) * nn.Exp(-math.Ln10*4*float64(2*i)/float64(n)))
				co[i], si[i] = float32(c), float32(s)
			}
			tables[axis][0], tables[axis][1] = append(tables[axis][0], co), append(tables[axis][1], si)
		}
	}
	join := func(part int) []float32 {
		all := make([]float32, 0, t*h*w*c.HeadDim/2)
		for i := range t * h * w {
			for axis, place := range [3]int{i / (h * w), i / w % h, i % w} {
				all = append(all, tables[axis][part][place]...)
			}
		}
		return all
	}
	return join(0), join(1)
}

// turn rotates queries or keys of a grid of tokens.
func (m *Model) turn(tp *autograd.Tape, t, h, w int) func(*autograd.Value) *autograd.Value {
	cos, sin := m.rotations(t, h, w)
	upload := func(x []float32) *autograd.Value {
		u := tp.Pool().FromF32(kernels.F32, x, t*h*w, m.HeadDim/2)
		defer u.Free()
		return tp.Input(u)
	}
	c, s := upload(cos), upload(sin)
	return func(x *autograd.Value) *autograd.Value { return tp.Rope(x, m.Heads, c, s, kernels.RopeInterleaved) }
}
