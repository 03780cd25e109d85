package autograd

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// adaptedCase is what goes with an adapter's layer.
type adaptedCase struct{ gate, residual, bias, dropped, itself, fixedGate bool }

// run has two adapted layers of one input, as q and k are.
func (c adaptedCase) run(e *env, layer func(x *Value, w *Param, p LowRank, o With) *Value) *Value {
	x := e.Var(2, 3, 8)
	y := x
	for range 2 {
		o, read := With{Alpha: 0.5}, x
		switch {
		case c.fixedGate:
			o.Gate = e.fixed([]float32{1, 2, 3, 4, 5, 6, 7, 8, -8, -7, -6, -5, -4, -3, -2, -1}, 2, 8)
		case c.gate:
			o.Gate = e.Var(2, 8)
		}
		if c.residual {
			o.Residual = y
		}
		if c.itself {
			o.Residual = x
		}
		if c.bias {
			o.Bias = e.Param(8)
		}
		if c.dropped {
			mask := make([]float32, x.t.Len())
			for i := range mask {
				mask[i] = float32(i % 3)
			}
			read = e.Mul(x, e.Upload("mask", mask, x.Shape()...))
		}
		y = e.Add(layer(x, e.Param(8, 8), LowRank{A: e.Param(2, 8), B: e.Param(8, 2), Scale: 0.75, X: read}, o), y)
	}
	return y
}

var adaptedCases = []adaptedCase{{}, {bias: true}, {residual: true}, {gate: true, residual: true, bias: true}, {fixedGate: true, residual: true, bias: true}, {gate: true},
	{dropped: true, residual: true}, {itself: true, bias: true}}

// TestAdaptedGradients holds the layer to finite differences.
func TestAdaptedGradients(t *testing.T) {
	for _, c := range adaptedCases {
		check(t, fmt.Sprintf("%+v", c), func(e *env) *Value { return c.run(e, e.Adapted) })
	}
}

// TestAdaptedIsThreeLayers: values and gradients have the bits of the three layers that it is.
func TestAdaptedIsThreeLayers(t *testing.T) {
	fast, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer fast.Close()
	for _, backend := range []kernels.Backend{ref.Backend{}, fast} {
		for _, o := range []Options{{Train: true}, {Train: true, DType: kernels.BF16, Math: kernels.MathBF16}} {
			for _, c := range adaptedCases {
				var numbers [][]float32
				pass := func(layer func(e *env) func(x *Value, w *Param, p LowRank, o With) *Value) (all [][]byte) {
					pool := tensor.NewPool(backend)
					pool.Poison = true
					e := &env{Tape: New(pool, o), pool: pool, numbers: &numbers, scale: 1}
					y := c.run(e, layer(e))
					all = append(all, y.t.Bytes())
					weights := make([]float32, y.t.Len())
					rng.New(5).Normal(weights, 0)
					_, seed := Dot(y, weights)
					e.Backward(seed)
					for _, v := range e.vars {
						all = append(all, v.Grad().Bytes())
					}
					for _, p := range e.params {
						all = append(all, p.Grad().Bytes())
					}
					return all
				}
				want := pass(threeLayers)
				for i, got := range pass(func(e *env) func(x *Value, w *Param, p LowRank, o With) *Value { return e.Adapted }) {
					if !bytes.Equal(got, want[i]) {
						t.Errorf("%s, %s, %+v: result %d has other bits", backend.Name(), o.DType, c, i)
					}
				}
			}
		}
	}
}

// threeLayers is the layer as the sum that it is: the pair's part in fp32, as the residual of the weight's.
func threeLayers(e *env) func(x *Value, w *Param, p LowRank, o With) *Value {
	return func(x *Value, w *Param, p LowRank, o With) *Value {
		h := e.Linear(p.X, p.A, With{})
		o.Residual = e.Linear(h, p.B, With{Alpha: p.Scale, Gate: o.Gate, Residual: o.Residual, Wide: true})
		return e.Linear(x, w, o)
	}
}
