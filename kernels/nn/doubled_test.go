package nn

import (
	"math"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

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

// What is wrong with a stored weight is said as for any other layer.
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
