//go:build !nocuda && linux && (amd64 || arm64)

package nn

import (
	"fmt"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/double"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// sampled has matrices of random numbers.
type sampled struct{ names []string }

func (s sampled) Names() []string { return s.names }

func (s sampled) Tensor(name string) (safetensors.Tensor, error) {
	x := make([]float32, 64*64)
	rng.New(7).With(rng.Purpose(name)).Normal(x, 0)
	return safetensors.FromF32(name, []int{64, 64}, x), nil
}

// TestStock: devices that copy matrices out of pinned memory, or out of each other's, compute the bits of a device that
// keeps them. Two blocks and a matrix are resident at most, every copy is waited for, nothing is copied back, and
// nothing stays in any home.
func TestStock(t *testing.T) {
	const blocks, each, matrix = 5, 3, 64 * 64 * 4
	var names []string
	for b := range blocks {
		for i := range each {
			names = append(names, fmt.Sprintf("%d.%d.weight", b, i))
		}
	}
	c := double.New(t)
	var want [][]float32
	for _, home := range []Home{Device, Host, Ranks} {
		c.Set(13000, 2, 80, 1<<30)
		c.Resident(0)
		var on []*cuda.Backend
		for i := range 2 {
			be, err := cuda.OpenAs(i, "exact")
			if err != nil {
				t.Fatal(err)
			}
			defer be.Close()
			on = append(on, be)
		}
		stock := NewStock(on[0], on[1])
		var all [2]*Params
		var layers [2][]*Linear
		for i, be := range on {
			p, err := New(Options{Pool: tensor.NewPool(be), Source: sampled{names}, Home: home, Stock: stock, Called: "test"})
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				layers[i] = append(layers[i], p.Linear(name[:len(name)-len(".weight")], 64, 64, false))
			}
			if err := p.Check(); err != nil {
				t.Fatal(err)
			}
			all[i] = p
		}
		if home != Device {
			if n := stock.Bytes(); n != len(names)*matrix {
				t.Errorf("home = %s: two devices share %d bytes, and matrices have %d", home, n, len(names)*matrix)
			}
			c.Resident((2*each + 1) * matrix)
		}
		for i := range on {
			var got [][]float32
			for _, train := range []bool{false, true, true} {
				tp := autograd.New(all[i].root.Pool, autograd.Options{DType: kernels.F32, Train: train, Checkpoint: autograd.AllBlocks})
				x := make([]float32, 2*64)
				rng.New(9).Normal(x, 0)
				v := all[i].root.Pool.FromF32(kernels.F32, x, 1, 2, 64)
				in := tp.Variable(v)
				h := in
				for b := range blocks {
					h = tp.Block(func(in ...*autograd.Value) []*autograd.Value {
						y := in[0]
						for k := range each {
							y = tp.Norm(layers[i][b*each+k].Apply(tp, y, autograd.With{}), autograd.NormWith{Kind: kernels.RMSNorm, Eps: 1e-6})
						}
						return []*autograd.Value{y}
					}, h)[0]
				}
				got = append(got, h.F32())
				if train {
					tp.Backward(autograd.Seed{Of: h, Grad: x})
					got = append(got, in.Grad().F32())
				}
				tp.Reset()
				v.Free()
			}
			if want == nil {
				want = got
			}
			for k := range want {
				if !slices.Equal(got[k], want[k]) {
					t.Errorf("home = %s: device %d has other numbers at place %d", home, i, k)
				}
			}
		}
		for i := range on {
			all[i].Free()
		}
		for d := range double.TooMany + 1 {
			if n := c.Disorders(d); n > 0 {
				t.Errorf("home = %s: disorder %d, %d times", home, d, n)
			}
		}
		if n := stock.Bytes() + on[0].Pinned() + on[1].Pinned(); n > 0 {
			t.Errorf("home = %s: %d bytes stay", home, n)
		}
		if slices.Max(stock.shares) != 0 || slices.Min(stock.shares) != 0 {
			t.Errorf("home = %s: shares of %d bytes stay", home, stock.shares)
		}
		if home != Device && c.Peak() == 0 {
			t.Errorf("home = %s: nothing was copied", home)
		}
	}
}

// TestStockAlone: a device that copies no weights has them in its own memory, or reads them from the disk.
func TestStockAlone(t *testing.T) {
	s := NewStock(struct{ kernels.Backend }{ref.Backend{}}, ref.Backend{})
	for wish, want := range map[Home]Home{Device: Device, Host: Device, Ranks: Device, Disk: Disk} {
		if got := s.Home(wish); got != want {
			t.Errorf("home = %s comes to %s, not to %s", wish, got, want)
		}
	}
}

// TestShareCounts: a device's share of a stock counts to the limit of its pool while it is there.
func TestShareCounts(t *testing.T) {
	var on [2]*cpu.Backend
	for i := range on {
		be, err := cpu.New()
		if err != nil {
			t.Fatal(err)
		}
		defer be.Close()
		on[i] = be
	}
	stock, names := NewStock(on[0], on[1]), []string{"a.weight", "b.weight"}
	held := func(pool *tensor.Pool) int {
		pool.Limit = 64 << 10
		pool.Trim()
		pool.New(kernels.F32, 10<<10).Free()
		small := pool.New(kernels.F32, 3<<10)
		defer small.Free()
		return pool.Stats().Held
	}
	var all []*Params
	for _, be := range on {
		pool := tensor.NewPool(be)
		p, err := New(Options{Pool: pool, Source: sampled{names}, Home: Ranks, Stock: stock, Called: "test"})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			p.Linear(name[:1], 64, 64, false)
		}
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
		if n := held(pool); n != 12<<10 {
			t.Errorf("beside a share of 16 KiB, of 64, %d bytes are held", n)
		}
	}
	next := tensor.NewPool(on[0])
	p, err := New(Options{Pool: next, Source: sampled{names}, Home: Ranks, Stock: stock, Called: "test"})
	if err != nil {
		t.Fatal(err)
	}
	p.Linear("a", 64, 64, false)
	all[0].Free()
	if first, second := held(all[0].root.Pool), held(next); first != 52<<10 || second != 12<<10 {
		t.Errorf("with a second pool, %d bytes are held in the first, which was left, and %d in the second", first, second)
	}
	all = append(all, p)
	for _, p := range all[1:] {
		p.Free()
	}
	for _, p := range all {
		if n := held(p.root.Pool); n != 52<<10 {
			t.Errorf("without a share %d bytes are held", n)
		}
	}
}
