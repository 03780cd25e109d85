package vlm

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/portable"
)

// Rotary embeddings: pair i of a head turns by at · theta^(-2i/n), the angle rounded to fp32 as
// upstream has it.

// angles are the cosines and sines of tokens' pairs, [tokens, pairs] on the tape.
type angles struct{ cos, sin *autograd.Value }

// frequencies are theta^(-2i/n) of n/2 pairs.
func frequencies(theta float64, n int) []float32 {
	f := make([]float32, n/2)
	for i := range f {
		f[i] = float32(nn.Exp(-portable.Log(theta) * float64(2*i) / float64(n)))
	}
	return f
}

// turned makes angles of rows of (place, frequency).
func turned(tp *autograd.Tape, tokens, pairs int, angle func(token, pair int) float32) angles {
	cos, sin := make([]float32, 0, tokens*pairs), make([]float32, 0, tokens*pairs)
	for t := range tokens {
		for p := range pairs {
			s, c := nn.Sincos(float64(angle(t, p)))
			cos, sin = append(cos, float32(c)), append(sin, float32(s))
		}
	}
	upload := func(x []float32) *autograd.Value {
		t := tp.Pool().FromF32(kernels.F32, x, tokens, pairs)
		defer t.Free()
		return tp.Input(t)
	}
	return angles{upload(cos), upload(sin)}
}

// part turns the first numbers of each head of [1, tokens, heads n], as many as there are angles for.
func (a angles) part(tp *autograd.Tape, x *autograd.Value, heads int) *autograd.Value {
	tokens, n, turning := x.Dim(1), x.Dim(2)/heads, 2*a.cos.Dim(-1)
	if turning == n {
		return a.apply(tp, x, heads)
	}
	parts := tp.Split(tp.Reshape(x, 1, tokens, heads, n), 3, turning, n-turning)
	turned := a.apply(tp, tp.Reshape(parts[0], 1, tokens, heads*turning), heads)
	return tp.Reshape(tp.Concat(3, tp.Reshape(turned, 1, tokens, heads, turning), parts[1]), 1, tokens, heads*n)
}

func (a angles) apply(tp *autograd.Tape, x *autograd.Value, heads int) *autograd.Value {
	return tp.Rope(x, heads, a.cos, a.sin, kernels.RopeHalves)
}
