//go:build !nocuda && linux && (amd64 || arm64)

package cuda_test

import (
	"fmt"
	"math"
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
