//go:build !nocuda && linux && (amd64 || arm64)

package cuda_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
)

// timed is an attention to time: so many samples, queries, keys, heads of queries and of keys, and head dimension.
type timed struct {
	b, sq, sk, h, kh, d int
	causal, backward    bool
}

// timedAttentions are those of pictures (SD3.5-medium, FLUX and Wan among them), of SD1.5's and SigLIP's heads, and of
// conversations (Qwen2.5-VL-7B: a prompt, and one token of many samples).
var timedAttentions = []timed{
	{2, 487, 487, 24, 24, 64, false, true},
	{1, 1178, 1178, 24, 24, 64, false, true},
	{2, 1178, 1178, 24, 24, 64, false, true},
	{64, 80, 80, 2, 2, 64, false, true},
	{8, 512, 512, 8, 8, 128, false, true},
	{1, 4352, 4352, 24, 24, 64, false, true},
	{4, 4352, 4352, 24, 24, 64, false, false},
	{16, 1536, 1536, 24, 24, 64, false, true},
	{16, 1536, 1536, 24, 24, 128, false, true},
	{1, 2537, 2537, 24, 24, 128, false, true},
	{1, 4608, 4608, 24, 24, 128, false, true},
	{1, 16384, 16384, 16, 16, 128, false, false},
	{1, 32760, 32760, 12, 12, 128, false, false},
	{2, 4096, 4096, 8, 8, 40, false, true},
	{2, 1024, 1024, 8, 8, 80, false, true},
	{8, 729, 729, 16, 16, 72, false, true},
	{1, 2048, 2048, 28, 4, 128, true, true},
	{1, 8192, 8192, 28, 4, 128, true, true},
	{8, 1, 2048, 28, 4, 128, true, false},
	{64, 1, 2048, 28, 4, 128, true, false},
}

func (x timed) String() string {
	s := fmt.Sprintf("(%d,%d,%d,%d)", x.b, x.h, x.sq, x.d)
	if x.sk != x.sq {
		s += fmt.Sprintf(" of %d keys", x.sk)
	}
	if x.kh != x.h {
		s += fmt.Sprintf(" in %d groups", x.kh)
	}
	if x.causal {
		s += " causal"
	}
	return s
}

// work is how many operations the forward's two products are.
func (x timed) work() float64 {
	w := 4 * float64(x.b*x.h*x.d) * float64(x.sq) * float64(x.sk)
	if x.causal && x.sq == x.sk {
		w /= 2
	}
	return w
}

// TestAttentionTimes times attention on a device, queued launch after launch, and holds what was timed near to the
// kernels by mma.sync. -times 1 asks for all of them, -times "487|1178" for
// those with such names.
func TestAttentionTimes(t *testing.T) {
	if *times == "" {
		t.Skip("-times 1 times attention on a device")
	}
	if r := cuda.Probe(); r.Missing != "" {
		t.Fatal("no device: " + r.Missing)
	}
	b, err := cuda.OpenAs(0, "own")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	t.Log(b)
	for _, x := range timedAttentions {
		named := func(name string) bool { return strings.Contains(x.String(), name) }
		if only := *times; only == "1" || slices.ContainsFunc(strings.Split(only, "|"), named) {
			timeAttention(t, b, x)
		}
	}
}

func timeAttention(t *testing.T, b *cuda.Backend, x timed) {
	var owned []*kernels.Buffer
	defer func() {
		for _, o := range owned {
			b.Free(o)
		}
	}()
	span := func(n int, d kernels.DType) kernels.Span {
		owned = append(owned, b.Alloc(n*d.Size()))
		s := kernels.Span{Buf: owned[len(owned)-1], Len: n, DType: d}
		b.Normal(&kernels.Normal{Key: 7, Stream: uint64(len(owned)), Y: s})
		return s
	}
	heads := func(s, h int) kernels.Heads { return kernels.NewHeads(span(x.b*s*h*x.d, kernels.BF16), x.b, s, h, x.d) }
	a := kernels.AttentionBackward{Attention: kernels.Attention{Math: kernels.MathBF16, Scale: float32(1 / math.Sqrt(float64(x.d))), Causal: x.causal,
		Q: heads(x.sq, x.h), K: heads(x.sk, x.kh), V: heads(x.sk, x.kh), O: heads(x.sq, x.h), LSE: span(x.b*x.h*x.sq, kernels.F32)}}
	report := func(what string, work float64, run func()) {
		took := queued(b, run)
		t.Logf("%-9s %-36s %9.4f ms %6.0f TF/s", what, x, took.Seconds()*1e3, work/took.Seconds()/1e12)
	}
	report("forward", x.work(), func() { b.Attention(&a.Attention) })
	near(t, b, x, []kernels.Heads{a.O}, func() { b.Attention(&a.Attention) })
	if !x.backward {
		return
	}
	a.DO, a.DQ, a.DK, a.DV, a.Delta = heads(x.sq, x.h), heads(x.sq, x.h), heads(x.sk, x.kh), heads(x.sk, x.kh), span(x.b*x.h*x.sq, kernels.F32)
	report("backward", 2.5*x.work(), func() { b.AttentionBackward(&a) })
	near(t, b, x, []kernels.Heads{a.DQ, a.DK, a.DV}, func() { b.AttentionBackward(&a) })
}

// queued is what one of many calls takes, the best of three times, when each is queued behind the one before it.
func queued(b *cuda.Backend, run func()) (best time.Duration) {
	run()
	b.Sync()
	n := 1
	for round := range 4 {
		start := time.Now()
		for range n {
			run()
		}
		b.Sync()
		took := time.Since(start) / time.Duration(n)
		if round == 0 {
			n = min(max(int(25*time.Millisecond/took), 2), 200)
		} else if best == 0 || took < best {
			best = took
		}
	}
	return best
}

// near compares results, a part of each, with those by mma.sync: by the size of the difference,
// over all, beside the results'.
func near(t *testing.T, b *cuda.Backend, x timed, results []kernels.Heads, run func()) {
	t.Helper()
	play := func() (all [][]float32) {
		run()
		for _, r := range results {
			n := min(r.Len, 1<<20)
			raw := make([]byte, 2*n)
			b.Download(raw, r.Slice(r.Len-n, r.Len))
			all = append(all, widened(raw))
		}
		return all
	}
	got := play()
	b.UseHopper(false)
	want := play()
	b.UseHopper(true)
	for i := range got {
		off, size := 0.0, 0.0
		for j, w := range want[i] {
			d := float64(got[i][j] - w)
			off, size = off+d*d, size+float64(w)*float64(w)
		}
		if !(off <= 1e-4*size) {
			t.Errorf("%v: result %d is off by %.3g of its size", x, i, math.Sqrt(off/size))
		}
	}
}

func widened(raw []byte) []float32 {
	all := make([]float32, len(raw)/2)
	for i := range all {
		all[i] = math.Float32frombits(uint32(raw[2*i])<<16 | uint32(raw[2*i+1])<<24)
	}
	return all
}

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
