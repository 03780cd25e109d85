package nn

import (
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// TestLinearAs: a weight that was multiplied from the right gives what its transpose gives,
// in each storage, frozen and trained, and is written, and has its gradient, as it was stored.
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
	if got := p.Asked()["proj"]; !slices.Equal(got, []int{in, out}) {
		t.Errorf("asked for %v", got)
	}
}
