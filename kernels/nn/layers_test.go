package nn

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// TestLinearAs: a weight that is multiplied from the right gives its transpose's result, in each storage, frozen and
// trained, and is written, and has its gradient, as it was stored.
func TestLinearAs(t *testing.T) {
	const in, out = 5, 3
	right := draw(1, in*out)
	plain := make([]float32, in*out)
	for i := range in {
		for o := range out {
			plain[o*in+i] = right[i*out+o]
		}
	}
	for _, d := range []safetensors.DType{safetensors.F32, safetensors.BF16, safetensors.F16} {
		for _, train := range [][]string{nil, {".*"}} {
			store := func(name string, shape []int, x []float32) safetensors.Tensor {
				s := safetensors.FromF32(name, shape, x)
				if d != safetensors.F32 {
					s = as(s, d)
				}
				return s
			}
			set := folder(t, store("proj", []int{in, out}, right), store("in_proj_bias", []int{out}, draw(2, out)), store("same.weight", []int{out, in}, plain), store("same.bias", []int{out}, draw(2, out)))
			p := newParams(t, Options{Source: set, Train: train, Pool: tensor.NewPool(ref.Backend{})})
			a := p.LinearAs(Stored{Weight: "proj", Bias: "in_proj_bias", In: in, Out: out, Right: true})
			b := p.Linear("same", in, out, true)
			if err := p.Check(); err != nil {
				t.Fatal(err)
			}
			tp := autograd.New(p.root.Pool, autograd.Options{Train: train != nil})
			x := tp.Upload("x", draw(3, 2*in), 1, 2, in)
			ya, yb := a.Apply(tp, x, autograd.With{}), b.Apply(tp, x, autograd.With{})
			if !slices.Equal(ya.F32(), yb.F32()) {
				t.Errorf("%v, trained %v: %v, of the transpose %v", d, train != nil, ya.F32(), yb.F32())
			}
			if train == nil {
				continue
			}
			tp.Backward(autograd.Seed{Of: ya, Grad: draw(4, 2*out)}, autograd.Seed{Of: yb, Grad: draw(4, 2*out)})
			ga, err := p.Grad("proj")
			if err != nil {
				t.Fatal(err)
			}
			gb, _ := p.Grad("same.weight")
			fa, _ := ga.Float32(nil)
			fb, _ := gb.Float32(nil)
			for i := range in {
				for o := range out {
					if fa[i*out+o] != fb[o*in+i] {
						t.Fatalf("gradient [%d %d]: %v and %v", i, o, fa[i*out+o], fb[o*in+i])
					}
				}
			}
			back, _ := p.Tensors()[0].Float32(nil)
			was, _ := store("proj", []int{in, out}, right).Float32(nil)
			if !slices.Equal(back, was) || !slices.Equal(p.Tensors()[0].Shape, []int{in, out}) {
				t.Errorf("written as %v %v", p.Tensors()[0].Shape, back)
			}
		}
	}
	set := folder(t, safetensors.FromF32("proj", []int{out, in}, plain))
	p := newParams(t, Options{Source: set})
	p.LinearAs(Stored{Weight: "proj", In: in, Out: out, Right: true})
	if err := p.Check(); err == nil || !strings.Contains(err.Error(), "proj: its shape is [3 5], the model's [5 3]") {
		t.Errorf("the wrong way round: %v", err)
	}
	if got := p.Requested()["proj"]; !slices.Equal(got, []int{in, out}) {
		t.Errorf("asked for %v", got)
	}
}

// A frozen layer's four small convolutions are the large one of the doubled picture, with
// its gradient, at the borders too.
func TestDoubledIsUpsampleAndConv(t *testing.T) {
	const in, out, n, h, w = 5, 3, 2, 4, 3
	src := folder(t, safetensors.FromF32("up.weight", []int{out, in, 3, 3}, draw(1, out*in*9)), safetensors.FromF32("up.bias", []int{out}, draw(2, out)))
	pool := tensor.NewPool(ref.Backend{})
	for _, c := range []struct {
		dtype kernels.DType
		math  kernels.Math
		far   float64
	}{{kernels.F32, kernels.MathF32, 3e-6}, {kernels.BF16, kernels.MathBF16, 0.06}} {
		var ys, dxs [2][]float32
		for i, train := range [][]string{{".*"}, nil} {
			p := newParams(t, Options{Pool: pool, Math: c.math, Source: src, Train: train})
			layer := p.Doubled("up", in, out)
			if err := p.Check(); err != nil {
				t.Fatal(err)
			}
			if (layer.whole == nil) != (i == 1) {
				t.Fatal("which layer is small depends on what is trained")
			}
			tp := autograd.New(pool, autograd.Options{DType: c.dtype, Math: c.math, Train: true})
			x := tp.Variable(pool.FromF32(c.dtype, draw(3, n*h*w*in), n, h, w, in))
			y := layer.Apply(tp, x)
			ys[i] = y.F32()
			tp.Backward(autograd.Seed{Of: y, Grad: draw(4, len(ys[i]))})
			dxs[i] = x.Grad().F32()
			tp.Reset()
		}
		for what, pair := range map[string][2][]float32{"value": ys, "gradient": dxs} {
			if len(pair[0]) != len(pair[1]) {
				t.Fatalf("%s: %d numbers, want %d", what, len(pair[1]), len(pair[0]))
			}
			for e, want := range pair[0] {
				if d := math.Abs(float64(pair[1][e] - want)); !(d <= c.far*(1+math.Abs(float64(want)))) {
					t.Fatalf("%v: %s %d is %v, the large convolution's %v", c.math, what, e, pair[1][e], want)
				}
			}
		}
	}
}

// Mistakes in a stored weight are reported as for any other layer.
func TestDoubledReportsMistakes(t *testing.T) {
	for says, ts := range map[string][]safetensors.Tensor{
		"up.weight: missing":                     {safetensors.FromF32("up.bias", []int{3}, draw(2, 3))},
		"up.bias: missing":                       {safetensors.FromF32("up.weight", []int{3, 5, 3, 3}, draw(1, 135))},
		"up.weight: its shape is [5 3 3 3], the": {safetensors.FromF32("up.weight", []int{5, 3, 3, 3}, draw(1, 135)), safetensors.FromF32("up.bias", []int{3}, draw(2, 3))},
	} {
		p := newParams(t, Options{Pool: tensor.NewPool(ref.Backend{}), Source: folder(t, ts...)})
		p.Doubled("up", 5, 3)
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
