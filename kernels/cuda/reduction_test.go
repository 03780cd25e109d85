//go:build !nocuda && linux && (amd64 || arm64)

package cuda_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/double"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
)

// TestReduction: owners copy from other devices and have the bits of a sum through the host, whether devices reach each
// other or not; nothing is copied twice, and an owner has no more memory than a piece.
func TestReduction(t *testing.T) {
	const ranks, n, piece = 3, 1000, 128
	c := double.New(t)
	for _, apart := range []bool{false, true} {
		t.Run(map[bool]string{false: "peers", true: "through the host"}[apart], func(t *testing.T) {
			c.Set(12040, ranks, 80, 1<<30)
			if apart {
				c.Apart()
			}
			r := rand.New(rand.NewPCG(2, 4))
			var backends []kernels.Backend
			var all []*cuda.Backend
			want, got := make([][]kernels.Span, ranks), make([][]kernels.Span, ranks)
			for k := range ranks {
				b := openMode(t, k, "exact")
				backends, all = append(backends, b), append(all, b)
				for range ranks {
					x := make([]float32, n)
					for i := range x {
						x[i] = float32(math.Ldexp(r.NormFloat64(), r.IntN(8)))
					}
					for _, to := range []*[]kernels.Span{&want[k], &got[k]} {
						s := kernels.Span{Buf: b.Alloc(4 * n), Len: n, DType: kernels.F32}
						b.Upload(s, floats(x))
						*to = append(*to, s)
					}
				}
			}
			s := exchange.Sum{Ranks: backends, Wire: &exchange.Host{Ranks: backends}, Shards: 4}
			if err := s.Add(want); err != nil {
				t.Fatal(err)
			}
			before := c.Used()
			d := exchange.Reduction{Ranks: backends, Shards: 4, Piece: piece, Lines: new(exchange.Lines)}
			if err := d.Own(got, []int{0, 1, 2}); err != nil {
				t.Fatal(err)
			}
			for k, b := range all {
				x, y := make([]byte, 4*n), make([]byte, 4*n)
				b.Download(x, want[k][k])
				if b.Download(y, got[k][k]); string(x) != string(y) {
					t.Errorf("rank %d has other bits", k)
				}
			}
			if copied := d.Lines.Bytes.Load(); copied != (ranks-1)*ranks*4*n {
				t.Errorf("%d bytes were copied, of a gradient of %d", copied, ranks*4*n)
			}
			if more := c.Used() - before; more > ranks*4<<20 {
				t.Errorf("%d bytes stay", more)
			}
			for d := range double.TooMany + 1 {
				if n := c.Disorders(d); n > 0 {
					t.Errorf("disorder %d, %d times", d, n)
				}
			}
		})
	}
}

// floats are the numbers as a device has them.
func floats(x []float32) []byte {
	var all []byte
	for _, v := range x {
		bits := math.Float32bits(v)
		all = append(all, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24))
	}
	return all
}
