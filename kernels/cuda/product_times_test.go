//go:build !nocuda && linux && (amd64 || arm64)

package cuda_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
)

var (
	times   = flag.String("times", "", "products: a file for their times; attention: 1, or parts of names with | between")
	timesOf = flag.Int("times-of", 1, "time one shape of so many")
)

// TestHopperTimes times products on a device, in microseconds: each tile of ours, and the library with the launch of
// its epilogue. -times names the file that the table is written to. With -times-of N, one shape of N of
// whole tiles is timed, and those with an epilogue.
func TestHopperTimes(t *testing.T) {
	to := *times
	if to == "" {
		t.Skip("-times names no file for the times of products")
	}
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	w := newStopwatch(t)
	defer w.own.Close()
	rest := func(s timedShape) {
		line := fmt.Sprintf("%s,%d,%d,%d", s.layout, s.m, s.n, s.k)
		for _, name := range append(cuda.Tiles(false), "") {
			w.own.SetReading(false, name)
			line += fmt.Sprintf(",%s,%.2f", name, w.time(w.own, s))
		}
		w.own.SetReading(false, "")
		fmt.Fprintln(out, line)
	}
	every := *timesOf
	if every < 1 {
		t.Fatalf("-times-of %d: a number from 1 on", every)
	}
	for _, s := range narrowShapes() {
		if every == 1 {
			rest(s)
		}
	}
	each := func(s timedShape) {
		line := fmt.Sprintf("%s,%d,%d,%d", s.layout, s.m, s.n, s.k)
		if s.with != "" {
			line += "," + s.with
		}
		for _, name := range cuda.HopperTiles() {
			w.own.SetHopper(name, 65, w.own.Device().Processors)
			if line += ","; name != "_thin" || s.layout == kernels.NT { // which it computes alone
				line += fmt.Sprintf("%.2f", w.time(w.own, s))
			}
		}
		if w.lt != nil {
			line += fmt.Sprintf(",%.2f", w.time(w.lt, s))
		}
		fmt.Fprintln(out, line)
	}
	for _, nk := range [][2]int{{3584, 3584}, {512, 3584}, {4608, 3584}, {18944, 3584}, {37888, 3584}, {3584, 18944}, {152064, 3584}} {
		for _, m := range []int{1, 8, 32, 64, 128} {
			each(timedShape{kernels.NT, m, nk[0], nk[1], "decode"})
		}
	}
	for _, with := range []string{"residual", "gelu"} {
		for _, m := range []int{462, 974, 4096} {
			for _, nk := range [][2]int{{1536, 1536}, {6144, 1536}, {12288, 3072}} {
				each(timedShape{kernels.NT, m, nk[0], nk[1], with})
			}
		}
	}
	for i, s := range timedShapes() {
		if i%every == 0 {
			each(s)
		}
	}
}

type timedShape struct {
	layout  kernels.Layout
	m, n, k int
	with    string // an epilogue; "decode" is none, and few calls
}

// timedShapes has its own header as comment: layout,m,n,k, a column a tile, the library.
func timedShapes() (all []timedShape) {
	sides := [][2]int{{1536, 1536}, {6144, 1536}, {1536, 6144}, {9216, 1536}, {3072, 3072}, {12288, 3072}, {3072, 12288},
		{3072, 15360}, {21504, 3072}, {4096, 4096}, {8192, 8192}, {152064, 3584}}
	for _, layout := range []kernels.Layout{kernels.NT, kernels.NN} {
		for _, nk := range sides {
			for _, m := range []int{64, 256, 462, 512, 974, 1024, 2025, 2537, 4096, 4352, 8192} {
				if nk[0] > 100000 && m > 512 {
					continue
				}
				all = append(all, timedShape{layout, m, nk[0], nk[1], ""})
			}
		}
	}
	return all
}

// narrowShapes are those of adapters and gradients of weights, which no wgmma computes.
func narrowShapes() (all []timedShape) {
	for _, m := range []int{462, 974, 2025, 4096} {
		for _, w := range []int{1536, 3072, 6144, 12288} {
			for _, r := range []int{8, 16, 32, 64} {
				all = append(all, timedShape{kernels.NT, m, r, w, ""}, timedShape{kernels.NT, m, w, r, ""}, timedShape{kernels.NN, m, r, w, ""},
					timedShape{kernels.NN, m, w, r, ""}, timedShape{kernels.TN, r, w, m, ""}, timedShape{kernels.TN, w, r, m, ""})
			}
		}
	}
	for _, m := range []int{974, 4096} {
		for _, nk := range [][2]int{{1536, 1536}, {6144, 1536}, {1536, 6144}, {3072, 3072}} {
			all = append(all, timedShape{kernels.TN, nk[0], nk[1], m, ""})
		}
	}
	return all
}

// A stopwatch has backends on the device, and room for operands. Weights of one shape after another come from different
// places, as a model's layers do.
type stopwatch struct {
	own, lt    *cuda.Backend
	a, b, c, r kernels.Span
}

func newStopwatch(t *testing.T) *stopwatch {
	w := &stopwatch{}
	var err error
	if w.own, err = cuda.OpenAs(0, "own"); err != nil {
		t.Fatal(err)
	}
	if w.lt, err = cuda.OpenAs(0, "lt"); err != nil {
		t.Log("without the library: ", err)
	}
	room := func(n int) kernels.Span {
		s := kernels.Span{Buf: w.own.Alloc(2 * n), Len: n, DType: kernels.BF16}
		w.own.Normal(&kernels.Normal{Key: 0x5eed, Stream: uint64(n), Y: s})
		return s
	}
	w.a, w.b, w.c, w.r = room(8192*16384), room(600<<20), room(8192*21504), room(2*4096*12288)
	w.own.Sync()
	return w
}

// time is how many microseconds a product takes.
func (w *stopwatch) time(b *cuda.Backend, s timedShape) float64 {
	flops := 2 * float64(s.m) * float64(s.n) * float64(s.k)
	n := min(100, max(3, int(1.2e-3/(flops/4e14+4e-6))))
	if min(s.n, s.k) <= 64 || s.layout == kernels.TN {
		n = min(n, 25)
	}
	if s.with == "decode" {
		n = min(n, 12)
	}
	each, places := s.n*s.k, 0
	places = min(max(1, w.b.Len/each), max(1, (128<<20)/(2*each)))
	run := func(s timedShape, i int) {
		weight := &kernels.Packed{Math: kernels.MathBF16, N: s.n, K: s.k}
		if s.layout == kernels.NN {
			weight.N, weight.K = s.k, s.n
		}
		weight.Buf = &kernels.Buffer{Addr: w.b.Buf.Addr + uintptr(2*each*i), Bytes: 2 * each}
		g := &kernels.Gemm{Layout: s.layout, Math: kernels.MathBF16, A: kernels.NewMat(w.a.Slice(0, s.m*s.k), s.m, s.k), W: weight,
			C: kernels.NewMat(w.c.Slice(0, s.m*s.n), s.m, s.n)}
		if s.layout == kernels.TN {
			g.A, g.B, g.W = kernels.NewMat(g.A.Span, s.k, s.m), kernels.NewMat(w.b.Slice(each*i, each*i+each), s.k, s.n), nil
		}
		if s.layout != kernels.TN && min(s.n, s.k) <= 64 { // factors of adapters are fp32
			rows, cols := weight.N, weight.K
			g.B, g.W = kernels.NewMat(kernels.Span{Buf: weight.Buf, Len: each, DType: kernels.F32}, rows, cols), nil
		}
		switch s.with {
		case "residual":
			g.Residual = kernels.NewMat(kernels.Span{Buf: w.r.Buf, Len: s.m * s.n, DType: kernels.F32}, s.m, s.n)
			g.Bias = w.a.Slice(0, s.n)
		case "gelu":
			g.Alpha = float32(1 / math.Sqrt(float64(s.k))) // arguments as networks have them
			g.Pre, g.Act, g.Bias = kernels.NewMat(w.r.Slice(0, s.m*s.n), s.m, s.n), kernels.GELUTanh, w.a.Slice(0, s.n)
		}
		b.Gemm(g)
	}
	run(s, 0)
	ahead := func() {
		for range 6 {
			b.Copy(wide(w.b))
		}
	}
	best := 1e30
	for range 2 {
		best = min(best, b.Timed(ahead, n, func(i int) { run(s, i%places) }))
	}
	return best
}

// wide is a copy of 256 MiB, which takes the device at least 170 microseconds.
func wide(b kernels.Span) *kernels.Copy {
	const n = 128 << 20
	return &kernels.Copy{Src: b.Slice(0, n), Dst: b.Slice(n, 2*n), Shape: [5]int{1, 1, 1, 1, n}, SrcStride: [5]int{4: 1}, DstStride: [5]int{4: 1}}
}
