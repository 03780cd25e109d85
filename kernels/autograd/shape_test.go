package autograd

import (
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// copying counts copies.
type copying struct {
	ref.Backend
	n int
}

func (c *copying) Copy(a *kernels.Copy) { c.n++; c.Backend.Copy(a) }

// onto is an env over a backend, with numbers of its own.
func onto(be kernels.Backend) *env {
	pool := tensor.NewPool(be)
	return &env{Tape: New(pool, f32), pool: pool, numbers: new([][]float32), scale: 1}
}

// joinedAfter is attention beside a product, joined and read; with takes places for what is joined.
func joinedAfter(with func(e *env, x *Value) [2]Place) program {
	return func(e *env) *Value {
		x := e.Var(2, 3, 4)
		p := with(e, x)
		a := e.Attention(x, e.Var(2, 3, 4), e.Var(2, 3, 4), Attend{Heads: 2, Place: p[0]})
		up := e.Linear(x, e.Param(6, 4), With{Bias: e.Param(6), Act: kernels.GELUTanh, Place: p[1]})
		return e.Linear(e.Concat(2, a, up), e.Param(4, 10), With{Residual: x})
	}
}

// What is made beside each other is joined without a copy, and nothing else changes.
func TestPlaces(t *testing.T) {
	both := func(e *env, x *Value) [2]Place { return [2]Place(e.Places(x, 4, 6)) }
	programs := map[string]program{
		"none":       joinedAfter(func(*env, *Value) [2]Place { return [2]Place{} }),
		"both":       joinedAfter(both),
		"one":        joinedAfter(func(e *env, x *Value) [2]Place { p := both(e, x); p[1].Leave(); return [2]Place{p[0]} }),
		"too narrow": joinedAfter(func(e *env, x *Value) [2]Place { return [2]Place(e.Places(x, 4, 5)) }),
	}
	var numbers [][]float32
	plain, _, seed := play(programs["none"], &numbers, f32)
	want := seed.Of.F32()
	plain.Backward(seed)
	for name, f := range programs {
		check(t, name, f)
		e, _, seed := play(f, &numbers, f32)
		if got := seed.Of.F32(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, without places %v", name, got, want)
		}
		e.Backward(seed)
		for k, g := range e.grads {
			if got, want := g(), plain.grads[k](); !slices.Equal(got, want) {
				t.Errorf("%s: gradient %d is %v, without places %v", name, k, got, want)
			}
		}
	}
	for name, copies := range map[string]int{"none": 2, "both": 0, "one": 2} {
		be := &copying{}
		programs[name](onto(be))
		if be.n != copies {
			t.Errorf("%s: %d copies forward, want %d", name, be.n, copies)
		}
	}
}
