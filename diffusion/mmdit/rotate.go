package mmdit

import (
	"math"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// Places of tokens turn queries and keys (Su et al., 2021, RoFormer; here over several
// axes): for each axis a of a token's place, with n = Axes[a],
//
//	angle[i] = place[a] / Theta^(2i/n), i = 0 ... n/2-1
//
// turns the elements 2i and 2i+1 of the axis's part of a head. Angles are float64, their
// cosines and sines fp32, as upstream computes them.

// Rotary is how a family's heads turn.
type Rotary struct {
	Heads    int
	Axes     []int   // numbers of a head that turn by each number of a place
	LogTheta float64 // 0: Theta is 10000
}

// Angles are the cosines and sines of places, half a head of each a token.
func (r Rotary) Angles(places [][]float32) (cos, sin []float32) {
	scale := -math.Ln10 * 4
	if r.LogTheta != 0 {
		scale = -r.LogTheta
	}
	for _, at := range places {
		for a, n := range r.Axes {
			for i := range n / 2 {
				s, co := nn.Sincos(float64(at[a]) * nn.Exp(scale*float64(2*i)/float64(n)))
				cos, sin = append(cos, float32(co)), append(sin, float32(s))
			}
		}
	}
	return cos, sin
}

// Turn rotates queries or keys of tokens at places.
func (r Rotary) Turn(tp *autograd.Tape, places [][]float32) func(*autograd.Value) *autograd.Value {
	cos, sin := r.Angles(places)
	upload := func(x []float32) *autograd.Value {
		t := tp.Pool().FromF32(kernels.F32, x, len(places), len(x)/len(places))
		defer t.Free()
		return tp.Input(t)
	}
	c, s := upload(cos), upload(sin)
	return func(x *autograd.Value) *autograd.Value { return tp.Rope(x, r.Heads, c, s, kernels.RopeInterleaved) }
}

// CheckAxes says what is wrong with a head's parts.
func CheckAxes(l *hub.Limits, name string, axes []int, headDim int) {
	sum := 0
	for _, n := range axes {
		l.Must(n > 0 && n%2 == 0, `%q holds %d; each must be even and positive`, name, n)
		sum += n
	}
	l.Must(sum == headDim, `%q adds up to %d, and a head has %d numbers`, name, sum, headDim)
}
