package optim

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

func near(got, want, tol float64) bool { return math.Abs(got-want) <= tol*(1+math.Abs(want)) }

// TestFirstStep: from zero state, a step is lr sign(g) at any size of gradient,
// and the decay takes lr wd p on top.
func TestFirstStep(t *testing.T) {
	o := Defaults()
	o.Eps, o.WeightDecay = 0, 0.1
	for _, g := range []float64{1e-9, -1e-3, 1, -1e6} {
		p := []float64{2}
		NewAdamW(o, 1).Step(p, []float64{g}, 0.01)
		if want := 2 - 0.01*0.1*2 - math.Copysign(0.01, g); !near(p[0], want, 1e-12) {
			t.Errorf("gradient %v: %v, want %v", g, p[0], want)
		}
	}
}

// TestConstantGradient: under a constant gradient every step is lr, because both
// averages are unbiased.
func TestConstantGradient(t *testing.T) {
	o := Defaults()
	o.Eps, o.WeightDecay = 0, 0
	a, p := NewAdamW(o, 2), []float64{0, 0}
	for i := range 50 {
		a.Step(p, []float64{3, -0.2}, 0.1)
		want := 0.1 * float64(i+1)
		if !near(p[0], -want, 1e-12) || !near(p[1], want, 1e-12) {
			t.Fatalf("step %d: %v, want -+%v", i, p, want)
		}
	}
}

// TestKernel holds the engine's step to this one: float32's rounding apart, they
// are the same for a hundred updates.
func TestKernel(t *testing.T) {
	const n = 37
	r := rand.New(rand.NewPCG(1, 2))
	o := Defaults()
	o.WeightDecay = 0.02
	slow, fast := NewAdamW(o, n), NewAdamW(o, 0)
	be := ref.Backend{}
	span := func() kernels.Span { return kernels.Span{Buf: be.Alloc(4 * n), Len: n, DType: kernels.F32} }
	p, g, m, v := span(), span(), span(), span()
	params, grads := make([]float64, n), make([]float64, n)
	for i := range n {
		params[i] = float64(float32(r.NormFloat64()))
		p.F32()[i], m.F32()[i], v.F32()[i] = float32(params[i]), 0, 0
	}
	for step := range 100 {
		for i := range n {
			g.F32()[i] = float32(r.NormFloat64() * math.Pow(10, float64(i%7-3)))
			grads[i] = float64(g.F32()[i])
		}
		rate := 1e-2 / float64(step+1)
		slow.Step(params, grads, rate)
		k := fast.Kernel(rate)
		k.P, k.Grad, k.M, k.V = p, g, m, v
		be.AdamW(&k)
	}
	for i := range n {
		for name, pair := range map[string][2]float64{"p": {float64(p.F32()[i]), params[i]}, "m": {float64(m.F32()[i]), slow.M[i]}, "v": {float64(v.F32()[i]), slow.V[i]}} {
			scale := map[string]float64{"p": 1, "m": math.Sqrt(slow.V[i]), "v": slow.V[i]}[name]
			if math.Abs(pair[0]-pair[1]) > 2e-6*(scale+math.Abs(pair[1])) {
				t.Errorf("%s[%d] is %v in the kernel, %v here", name, i, pair[0], pair[1])
			}
		}
	}
}

func TestClipNorm(t *testing.T) {
	for _, row := range []struct{ limit, scale float64 }{{0, 1}, {10, 1}, {5, 5 / (5 + 1e-6)}, {1, 1 / (5 + 1e-6)}} {
		g := [][]float64{{3}, {0, 4}}
		if norm := clipNorm(g, row.limit); norm != 5 {
			t.Errorf("norm %v", norm)
		}
		if !near(g[0][0], 3*row.scale, 1e-15) || !near(g[1][1], 4*row.scale, 1e-15) {
			t.Errorf("limit %v: %v", row.limit, g)
		}
	}
}
