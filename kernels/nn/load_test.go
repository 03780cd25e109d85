package nn

import (
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// TestStream: a network whose frozen weights are streamed has the bits of one that keeps them, however often it is
// asked, takes the memory of one weight, and shares the values of what is trained.
func TestStream(t *testing.T) {
	const n = 32
	set := folder(t, safetensors.FromF32("up.weight", []int{n, n}, draw(1, n*n)), as(safetensors.FromF32("down.weight", []int{n, n}, draw(2, n*n)), safetensors.BF16),
		safetensors.FromF32("turned", []int{n, n}, draw(3, n*n)), safetensors.FromF32("conv.weight", []int{n, n, 3, 3}, draw(4, 9*n*n)),
		safetensors.FromF32("moved.weight", []int{n, n}, draw(5, n*n)))
	for _, m := range []kernels.Math{kernels.MathF32, kernels.MathBF16} {
		run := func(lend bool, values map[string]*tensor.Tensor) (p *Params, y []float32, most int) {
			counted := &counting{}
			p = newParams(t, Options{Source: set, Math: m, Home: map[bool]Home{true: Disk}[lend], Values: values, Pool: tensor.NewPool(counted), Train: []string{"moved.*"}})
			layers := []*Linear{p.Linear("up", n, n, false), p.Linear("down", n, n, false), p.LinearAs(Stored{Weight: "turned", In: n, Out: n, Right: true}), p.Linear("moved", n, n, false)}
			c := p.Conv("conv", Square(n, n, 3, 1, 1), false)
			if err := p.Check(); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				tp := autograd.New(p.root.Pool, autograd.Options{Math: m})
				x := tp.Upload("x", draw(6, n), 1, 1, 1, n)
				for _, l := range layers {
					x = l.Apply(tp, x, autograd.With{})
				}
				y = append(y, c.Apply(tp, x, nil).F32()...)
				tp.Reset()
			}
			return p, y, counted.packed
		}
		kept, want, all := run(false, nil)
		moved := kept.Trained()[0]
		lent, got, most := run(true, map[string]*tensor.Tensor{"moved.weight": moved.Value})
		if !slices.Equal(got, want) {
			t.Errorf("%s: streamed weights give other bits", m)
		}
		if most >= all || most > 2*9*n*n*4 {
			t.Errorf("%s: packed weights took %d bytes where they are streamed, and %d where they are kept", m, most, all)
		}
		if lent.Trained()[0].Value.Span().Buf != moved.Value.Span().Buf {
			t.Errorf("%s: what is trained has values of its own", m)
		}
		lent.Free()
		if moved.Value.F32(); len(kept.Trained()) != 1 {
			t.Errorf("%s: shared values went with the network that lent them", m)
		}
	}
}

// counting is ref, and the most bytes that packed weights took.
type counting struct {
	ref.Backend
	now, packed int
}

func (c *counting) Pack(w kernels.Mat, m kernels.Math) *kernels.Packed {
	return c.count(c.Backend.Pack(w, m))
}

func (c *counting) PackConv(w kernels.Span, s kernels.ConvShape, m kernels.Math) *kernels.Packed {
	return c.count(c.Backend.PackConv(w, s, m))
}

func (c *counting) count(w *kernels.Packed) *kernels.Packed {
	c.now += w.Buf.Bytes
	c.packed = max(c.packed, c.now)
	return w
}

func (c *counting) Free(b *kernels.Buffer) {
	c.now = max(0, c.now-b.Bytes)
	c.Backend.Free(b)
}
