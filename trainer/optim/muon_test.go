package optim

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

func randomMatrix(r *rand.Rand, n int, scale float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = scale * r.NormFloat64()
	}
	return x
}

// TestOrthogonal: singular values near 1 at any scale, wide or tall.
func TestOrthogonal(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		rows, cols int
		scale      float64
	}{{8, 32, 1}, {32, 8, 1e-3}, {5, 17, 1e4}, {1, 9, 1}, {40, 12, 7}} {
		var d mat.SVD
		d.Factorize(mat.NewDense(c.rows, c.cols, orthogonal(randomMatrix(r, c.rows*c.cols, c.scale), c.rows, c.cols)), mat.SVDNone)
		for _, v := range d.Values(nil) {
			if v < 0.6 || v > 1.3 {
				t.Errorf("%d x %d at %g: a singular value of %.3f", c.rows, c.cols, c.scale, v)
			}
		}
	}
}

// TestOptimizerIsItsTwins moves a matrix by Muon and a vector by AdamW for some updates, in the
// engine and in float64, with the gradient's norm clipped.
func TestOptimizerIsItsTwins(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	pool := tensor.NewPool(ref.Backend{})
	for _, shape := range [][]int{{6, 20}, {20, 6}} {
		o := Defaults()
		o.WeightDecay, o.Betas = 0.1, [2]float64{0.9, 0.98}
		m := o
		m.Betas[0] = 0.95
		start := [2][]float64{randomMatrix(r, 120, 1), randomMatrix(r, 7, 1)}
		var ps [2]*autograd.Param
		for i, s := range [][]int{shape, {7}} {
			x := make([]float32, len(start[i]))
			for j := range x {
				x[j] = float32(start[i][j])
				start[i][j] = float64(x[j])
			}
			ps[i] = autograd.NewParam([]string{"w", "b"}[i], pool.FromF32(kernels.F32, x, s...), true)
		}
		mv := NewOptimizer(2, Group{Params: ps[:1], Muon: true, Rate: 3, Options: m}, Group{Params: ps[1:], Rate: 1, Options: o})
		muon, adam := Muon{WeightDecay: 0.1, Momentum: 0.95}, NewAdamW(o, 7)
		for step := range 20 {
			grads := [][]float64{randomMatrix(r, 120, 0.5), randomMatrix(r, 7, 0.5)}
			for i, g := range grads {
				x := make([]float32, len(g))
				for j := range g {
					x[j] = float32(g[j])
					g[j] = float64(x[j])
				}
				seedGradient(pool, ps[i], x)
			}
			norm, err := mv.Step(0.01)
			if err != nil {
				t.Fatal(err)
			}
			if want := clipNorm(grads, 2); math.Abs(norm-want) > 1e-5*want {
				t.Fatalf("step %d: a norm of %v, not %v", step, norm, want)
			}
			muon.Step(start[0], grads[0], shape[1], 0.03)
			adam.Step(start[1], grads[1], 0.01)
		}
		for i, tol := range []float64{2e-2, 2e-5} { // Muon's products are bf16: 20 updates of 0.03·0.9 each
			for j, v := range ps[i].Value.F32() {
				if d := math.Abs(float64(v) - start[i][j]); d > tol {
					t.Errorf("%v %s[%d] is %v, its twin %v", shape, ps[i].Name, j, v, start[i][j])
				}
			}
		}
		roundTrip(t, mv, ps[:], m, o)
	}
}

// seedGradient leaves a gradient in a parameter, as a pass would.
func seedGradient(pool *tensor.Pool, p *autograd.Param, g []float32) {
	tp := autograd.New(pool, autograd.Options{DType: kernels.F32, Train: true})
	zero := tp.Upload("zero", make([]float32, len(g)), append([]int{1}, p.Shape...)...)
	_, seed := autograd.Dot(tp.AddParam(zero, p), g)
	tp.Backward(seed)
	tp.Reset()
}

type tensors map[string]safetensors.Tensor

func (tensors) Drop(string) {}

func (m tensors) Tensor(name string) (safetensors.Tensor, error) { return m[name], nil }

// made is a tensor with its data as it is now.
func made(x safetensors.Tensor) safetensors.Tensor {
	x, err := x.Made()
	if err != nil {
		panic(err)
	}
	return x
}

// roundTrip loads the state into another optimizer and compares all bytes.
func roundTrip(t *testing.T, mv *Optimizer, ps []*autograd.Param, m, o Options) {
	t.Helper()
	saved := tensors{}
	for _, x := range mv.Tensors("state.") {
		saved[x.Name] = made(x)
	}
	other := NewOptimizer(2, Group{Params: ps[:1], Muon: true, Rate: 3, Options: m}, Group{Params: ps[1:], Rate: 1, Options: o})
	if err := other.Load(saved, "state."); err != nil {
		t.Fatal(err)
	}
	for _, x := range other.Tensors("state.") {
		if string(made(x).Data) != string(saved[x.Name].Data) {
			t.Errorf("%s: other bytes after a round trip", x.Name)
		}
	}
}

// TestOptimizerRefuses a gradient that is not finite, and moves nothing.
func TestOptimizerRefuses(t *testing.T) {
	pool := tensor.NewPool(ref.Backend{})
	p := autograd.NewParam("w", pool.FromF32(kernels.F32, []float32{1, 2}, 2), true)
	mv := NewOptimizer(1, Group{Params: []*autograd.Param{p}, Rate: 1, Options: Defaults()})
	seedGradient(pool, p, []float32{1, float32(math.NaN())})
	if _, err := mv.Step(0.1); err == nil || p.Value.F32()[0] != 1 {
		t.Errorf("error %v, value %v", err, p.Value.F32())
	}
}

// TestShadow follows, and swaps there and back.
func TestShadow(t *testing.T) {
	pool := tensor.NewPool(ref.Backend{})
	p := autograd.NewParam("w", pool.FromF32(kernels.F32, []float32{1, 2}, 2), true)
	s := NewShadow([]*autograd.Param{p})
	p.Value.UploadF32([]float32{3, 6})
	s.Follow(0.75)
	own, average := p.Value, s.Values[0]
	s.Swap()
	if p.Value != average || s.Values[0] != own {
		t.Error("the tensors were copied, not exchanged")
	}
	if got := p.Value.F32(); got[0] != 1.5 || got[1] != 3 {
		t.Errorf("the average is %v", got)
	}
	s.Swap()
	if got := p.Value.F32(); got[0] != 3 || got[1] != 6 {
		t.Errorf("back again, the values are %v", got)
	}
}
