package autograd

import (
	"fmt"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// elsewhere is a weight whose home a test watches.
type elsewhere struct {
	t       *watched
	values  *tensor.Tensor
	packed  *kernels.Packed
	fetched bool
}

// watched counts what a ring does.
type watched struct {
	late, takes, now, most int // fetches that nobody asked for ahead; bytes there or on their way
}

func (e *elsewhere) count(bytes int) {
	e.t.now += bytes
	e.t.most = max(e.t.most, e.t.now)
}

func (e *elsewhere) Ahead() bool {
	if e.fetched || e.packed != nil {
		panic("asked for twice")
	}
	e.fetched = true
	e.count(e.Bytes())
	return true
}

func (e *elsewhere) Forget() {
	if !e.fetched {
		panic("forgotten twice")
	}
	e.fetched = false
	e.count(-e.Bytes())
}

func (e *elsewhere) Take() *kernels.Packed {
	if e.t.takes++; !e.fetched {
		e.t.late++
		e.count(e.Bytes())
	}
	e.fetched = false
	e.packed = e.values.Pool().Backend().Pack(e.values.Mat(), kernels.MathBF16)
	return e.packed
}

func (e *elsewhere) Give(w *kernels.Packed) {
	if w != e.packed {
		panic("another weight was given back")
	}
	e.values.Pool().Backend().Free(w.Buf)
	e.packed = nil
	e.count(-e.Bytes())
}

func (e *elsewhere) Close() {}

func (e *elsewhere) Bytes() int { return 2 * e.values.Len() }

// TestRing: networks of blocks that are sampled and trained have the bits of those that keep their weights. Once a pass
// of a kind was seen, every weight is asked for ahead; two blocks and a weight are there at most.
func TestRing(t *testing.T) {
	const wide, blocks, each = 32, 6, 3
	for _, checkpoint := range []int{0, 2, AllBlocks} {
		t.Run(fmt.Sprint("checkpoint ", checkpoint), func(t *testing.T) {
			pool := tensor.NewPool(ref.Backend{})
			draw := func(seed uint64, n int) []float32 {
				x := make([]float32, n)
				rng.New(seed).Normal(x, 0)
				return x
			}
			ring, seen := &Ring{}, &watched{}
			var kept, away [][]*Param
			var low []*Param
			for b := range blocks {
				var k, a []*Param
				for i := range each {
					w := pool.FromF32(kernels.BF16, draw(uint64(b*each+i+1), wide*wide), wide, wide)
					k = append(k, NewPacked("kept", []int{wide, wide}, pool, pool.Backend().Pack(w.Mat(), kernels.MathBF16)))
					a = append(a, NewStreamed(fmt.Sprint(b, ".", i), []int{wide, wide}, kernels.ConvShape{}, pool, ring, &elsewhere{t: seen, values: w}))
				}
				kept, away = append(kept, k), append(away, a)
				low = append(low, NewParam("trained", pool.FromF32(kernels.F32, draw(uint64(99+b), wide*wide), wide, wide), true))
			}
			pass := func(net [][]*Param, train bool) (all [][]float32) {
				tp := New(pool, Options{DType: kernels.BF16, Math: kernels.MathBF16, Train: train, Checkpoint: checkpoint})
				x := tp.Upload("x", draw(7, 4*wide), 1, 4, wide)
				for b, ws := range net {
					x = tp.Block(func(in ...*Value) []*Value {
						h := tp.Linear(in[0], low[b], With{Residual: in[0]})
						for _, w := range ws {
							h = tp.Linear(tp.Norm(h, NormWith{Kind: kernels.RMSNorm, Eps: 1e-6}), w, With{Residual: h})
						}
						return []*Value{h}
					}, x)[0]
				}
				all = append(all, x.F32())
				if train {
					tp.Backward(Seed{x, draw(8, 4*wide)})
					for _, p := range low {
						all = append(all, p.Grad().F32())
						p.ZeroGrad()
					}
				}
				tp.Reset()
				return all
			}
			for i, train := range []bool{false, false, true, true, false, true} {
				want := pass(kept, train)
				seen.late = 0
				got := pass(away, train)
				for j := range want {
					if !slices.Equal(got[j], want[j]) {
						t.Fatalf("pass %d has other numbers at place %d", i, j)
					}
				}
				late := seen.late
				if (i == 1 || i > 4) && late > each {
					t.Errorf("pass %d: %d of its weights were not asked for ahead", i, late)
				}
			}
			const weight = 2 * wide * wide
			if seen.most > (2*each+1)*weight {
				t.Errorf("%d bytes were there at once, of blocks of %d", seen.most, each*weight)
			}
			if limit := blocks*each*(3*2+3*3) + 9; seen.takes > limit {
				t.Errorf("weights were fetched %d times, expected %d at most", seen.takes, limit)
			}
			for _, p := range slices.Concat(away...) {
				p.Free()
			}
			if seen.now != 0 {
				t.Errorf("%d bytes were never given back", seen.now)
			}
		})
	}
}

// TestRingShared: a network that is freed is not asked for by another one of the same ring.
func TestRingShared(t *testing.T) {
	pool := tensor.NewPool(ref.Backend{})
	ring, seen := &Ring{room: 1 << 20}, &watched{}
	weight := func() *Param {
		w := pool.FromF32(kernels.BF16, make([]float32, 64), 8, 8)
		return NewStreamed("w", []int{8, 8}, kernels.ConvShape{}, pool, ring, &elsewhere{t: seen, values: w})
	}
	a, b := weight(), weight()
	for range 2 {
		ring.load(a)
		ring.load(b)
	}
	ring.Rest()
	b.Free()
	ring.load(a)
	if len(ring.ahead) != 0 {
		t.Errorf("%d weights are fetched ahead", len(ring.ahead))
	}
}
