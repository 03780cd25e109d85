package flux

import (
	"math"

	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// Places of tokens turn queries and keys (Su et al., 2021, RoFormer; here over several
// axes): for each axis a of a token's place, with n = Axes[a],
//
//	angle[i] = place[a] / 10000^(2i/n), i = 0 ... n/2-1
//
// turns the elements 2i and 2i+1 of the axis's part of a head. Angles are float64, their
// cosines and sines fp32, as upstream computes them.

// rotations are the cosines and sines [tokens, HeadDim/2] of places, one of len(Axes) a token.
func (c Config) rotations(places [][]float32) (cos, sin []float32) {
	for _, at := range places {
		for a, n := range c.Axes {
			for i := range n / 2 {
				s, co := nn.Sincos(float64(at[a]) * nn.Exp(-math.Ln10*4*float64(2*i)/float64(n)))
				cos, sin = append(cos, float32(co)), append(sin, float32(s))
			}
		}
	}
	return cos, sin
}

// Grid is the places of h x w tokens of a picture: (0, row, column).
func Grid(h, w int) [][]float32 {
	var places [][]float32
	for y := range h {
		for x := range w {
			places = append(places, []float32{0, float32(y), float32(x)})
		}
	}
	return places
}

// Nowhere is the places of n tokens of text.
func Nowhere(n int) [][]float32 {
	places := make([][]float32, n)
	for i := range places {
		places[i] = make([]float32, 3)
	}
	return places
}
