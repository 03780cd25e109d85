package cpu

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// Boxes with their axes in every order, cut out of larger memory on either side, are
// copied, cast and added as ref does it.
func TestCopyOrders(t *testing.T) {
	path, err := isa.Choose()
	if err != nil {
		t.Skip(err)
	}
	b := NewWith(Options{Path: path, Threads: 2})
	defer b.Close()
	orders := [][]int{{0, 1, 2, 3}, {0, 1, 3, 2}, {0, 3, 1, 2}, {3, 2, 1, 0}, {1, 0, 2, 3}, {2, 3, 0, 1}, {0, 2, 1, 3}}
	types := []kernels.DType{kernels.F32, kernels.BF16, kernels.F16}
	for _, shape := range [][4]int{{2, 3, 4, 5}, {1, 40, 1, 70}, {3, 1, 33, 64}, {2, 65, 3, 2}} {
		for _, order := range orders {
			for _, slack := range []int{0, 3} {
				for i := range 18 {
					from, to, add := types[i%3], types[i/3%3], i >= 9
					if add && to == kernels.F16 {
						continue
					}
					c := kernels.Copy{Shape: [5]int{1}, Accumulate: add}
					srcLen, dstLen := 1, 1
					for k := 3; k >= 0; k-- {
						c.Shape[k+1] = shape[k]
						c.DstStride[k+1] = dstLen
						dstLen *= shape[k]
						axis := order[k]
						c.SrcStride[axis+1] = srcLen
						srcLen *= shape[axis]
						if k == 3 {
							srcLen, dstLen = srcLen+slack, dstLen+slack
						}
					}
					c.Src = randomSpan(from, srcLen)
					want, got := randomSpan(to, dstLen), randomSpan(to, dstLen)
					c.Dst = want
					ref.Backend{}.Copy(&c)
					c.Dst = got
					b.Copy(&c)
					if !slices.Equal(want.Raw(), got.Raw()) {
						t.Fatalf("%s to %s, %v in order %v, slack %d, added %t: not ref's bits", from, to, shape, order, slack, add)
					}
				}
			}
		}
	}
}

// randomSpan is the same numbers for the same size.
func randomSpan(d kernels.DType, n int) kernels.Span {
	s := kernels.Span{Buf: &kernels.Buffer{Host: make([]byte, n*4)}, Len: n, DType: kernels.F32}
	r := rand.New(rand.NewPCG(uint64(n), 1))
	for i := range n {
		s.F32()[i] = r.Float32() - 0.5
	}
	if d == kernels.F32 {
		return s
	}
	out := kernels.Span{Buf: &kernels.Buffer{Host: make([]byte, n*2)}, Len: n, DType: d}
	ref.Backend{}.Copy(&kernels.Copy{Src: s, Dst: out, Shape: [5]int{1, 1, 1, 1, n}, SrcStride: [5]int{4: 1}, DstStride: [5]int{4: 1}})
	return out
}

func BenchmarkCopy(b *testing.B) {
	path, err := isa.Choose()
	if err != nil {
		b.Skip(err)
	}
	be := NewWith(Options{Path: path})
	defer be.Close()
	x, y := randomSpan(kernels.F32, 1<<22), randomSpan(kernels.F32, 1<<22)
	h := randomSpan(kernels.BF16, 1<<22)
	for name, c := range map[string]kernels.Copy{
		"transpose": {Src: x, Dst: y, Shape: [5]int{1, 1, 1, 2048, 2048}, SrcStride: [5]int{0, 0, 0, 1, 2048}, DstStride: [5]int{0, 0, 0, 2048, 1}},
		"nchw":      {Src: x, Dst: y, Shape: [5]int{1, 1, 4, 4096, 256}, SrcStride: [5]int{0, 0, 1 << 20, 1, 4096}, DstStride: [5]int{0, 0, 1 << 20, 256, 1}},
		"cast":      {Src: x, Dst: h, Shape: [5]int{1, 1, 1, 1, 1 << 22}, SrcStride: [5]int{4: 1}, DstStride: [5]int{4: 1}},
		"rows":      {Src: x, Dst: y, Shape: [5]int{1, 1, 1, 1024, 2048}, SrcStride: [5]int{0, 0, 0, 4096, 1}, DstStride: [5]int{0, 0, 0, 2048, 1}},
	} {
		b.Run(fmt.Sprint(name), func(b *testing.B) {
			b.SetBytes(int64(boxSize([]axis{{n: c.Shape[2]}, {n: c.Shape[3]}, {n: c.Shape[4]}})) * 8)
			for b.Loop() {
				be.Copy(&c)
			}
		})
	}
}
