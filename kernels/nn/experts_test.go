package nn

import (
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

type oneTensor struct{ t safetensors.Tensor }

func (s oneTensor) Names() []string                           { return []string{s.t.Name} }
func (s oneTensor) Tensor(string) (safetensors.Tensor, error) { return s.t, nil }

// TestExperts: a stack is as many layers, in either order of axes, and is one tensor for the disk:
// its values come out as they went in, and so do its gradients.
func TestExperts(t *testing.T) {
	const n, in, out = 3, 4, 5
	x := make([]float32, n*in*out)
	for i := range x {
		x[i] = float32(i%7) - 3
	}
	across := make([]float32, len(x)) // the same, [in, out] each
	for e := range n {
		for o := range out {
			for i := range in {
				across[(e*in+i)*out+o] = x[(e*out+o)*in+i]
			}
		}
	}
	var results [][]float32
	for _, right := range []bool{false, true} {
		stored := safetensors.FromF32("mlp.up", []int{n, out, in}, x)
		if right {
			stored = safetensors.FromF32("mlp.up", []int{n, in, out}, across)
		}
		pool := tensor.NewPool(ref.Backend{})
		p, err := New(Options{Pool: pool, Source: oneTensor{stored}, Train: []string{`mlp\.up`}})
		if err != nil {
			t.Fatal(err)
		}
		layers := p.Sub("mlp").Experts("up", "experts", n, in, out, right).Layers
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		tp := autograd.New(pool, autograd.Options{Train: true})
		y := layers[1].Apply(tp, tp.Upload("x", []float32{1, 2, 3, 4}, 1, 1, in), autograd.With{})
		results = append(results, y.F32())
		_, seed := autograd.Sum(y)
		tp.Backward(seed)
		g, err := p.Grad("mlp.up")
		if err != nil {
			t.Fatal(err)
		}
		values, _ := g.Float32(nil)
		for i, v := range values {
			e, k := i/(in*out), i%in
			if right {
				k = i / out % in
			}
			if want := map[bool]float32{true: float32(k + 1)}[e == 1]; v != want {
				t.Fatalf("right %v: the gradient at %d is %v, not %v", right, i, v, want)
			}
		}
		all := p.Tensors()
		if len(all) != 1 || all[0].Name != "mlp.up" || !slices.Equal(all[0].Data, stored.Data) || !slices.Equal(all[0].Shape, stored.Shape) {
			t.Errorf("right %v: the tensor comes out as %d, %v", right, len(all), all[0].Shape)
		}
		tp.Reset()
		p.Free()
	}
	if !slices.Equal(results[0], results[1]) {
		t.Errorf("one order of axes gives %v, the other %v", results[0], results[1])
	}
}
