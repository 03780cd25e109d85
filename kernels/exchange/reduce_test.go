package exchange

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// counted counts the memory that it is asked for.
type counted struct {
	ref.Backend
	now, peak *int
}

func (c counted) Alloc(n int) *kernels.Buffer {
	*c.now += n
	*c.peak = max(*c.peak, *c.now)
	b := c.Backend.Alloc(n)
	b.Bytes = n
	return b
}

func (c counted) Free(b *kernels.Buffer) { *c.now -= b.Bytes }

// TestReduction: owners have the bits of Sum, by ranks and by shards, whatever the piece; each rank receives (W-1)/W of
// the gradient, and has no more memory than a piece.
func TestReduction(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	sizes := []int{64, 129, 0, 1, 320, 64}
	for _, shards := range []int{0, 8} {
		for _, ranks := range []int{2, 3, 4, 8} {
			for _, piece := range []int{0, 1, 33, 256} {
				t.Run(fmt.Sprintf("%d shards, %d ranks, pieces of %d", shards, ranks, piece), func(t *testing.T) {
					var backends []kernels.Backend
					var owner, peaks []int
					want, got := make([][]kernels.Span, ranks), make([][]kernels.Span, ranks)
					peaks = make([]int, ranks)
					for k := range ranks {
						backends = append(backends, counted{now: new(int), peak: &peaks[k]})
						for _, n := range sizes {
							x := numbers(r, n)
							want[k], got[k] = append(want[k], span(x)), append(got[k], span(slices.Clone(x)))
						}
					}
					whole, largest := 0, 0
					for k, n := range sizes {
						owner, whole, largest = append(owner, k%ranks), whole+4*n, max(largest, n)
					}
					s := Sum{Ranks: backends, Wire: &Host{Ranks: backends}, Shards: shards}
					if err := s.Add(want); err != nil {
						t.Fatal(err)
					}
					clear(peaks)
					d := Reduction{Ranks: backends, Shards: shards, Piece: piece, Lines: new(Lines)}
					if err := d.Own(got, owner); err != nil {
						t.Fatal(err)
					}
					for k, o := range owner {
						if !equal(got[o][k].F32(), want[o][k].F32()) {
							t.Errorf("gradient %d has other bits at its owner", k)
						}
					}
					if n := int(d.Lines.Bytes.Load()); n != (ranks-1)*whole {
						t.Errorf("%d bytes were copied, of a gradient of %d", n, whole)
					}
					if most := 4 * max(piece, ranks-1); piece > 0 && slices.Max(peaks) > most {
						t.Errorf("%d bytes beside the gradients, of at most %d", slices.Max(peaks), most)
					}
				})
			}
		}
	}
	d := Reduction{Ranks: make([]kernels.Backend, 2)}
	if err := d.Own([][]kernels.Span{{span(make([]float32, 4))}, {span(make([]float32, 4))}}, nil); err == nil {
		t.Error("a gradient without an owner was taken")
	}
}
