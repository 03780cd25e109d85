package cpu

import (
	"math"
	"testing"
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// filled is a span that holds numbers.
func filled[T int32 | float32 | float64](b kernels.Backend, d kernels.DType, x []T) kernels.Span {
	s := kernels.Span{Buf: b.Alloc(len(x) * d.Size()), Len: len(x), DType: d}
	b.Upload(s, unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), len(x)*d.Size()))
	return s
}

// drawing is a Draw of the same logits in many rows.
func drawing(b kernels.Backend, logits []float32, rows int, settings kernels.Draw) *kernels.Draw {
	a := settings
	all, uniform := make([]float32, 0, rows*len(logits)), make([]float64, rows)
	for r := range rows {
		all = append(all, logits...)
		uniform[r] = rng.New(5).Sample(r).Draw().Float64()
	}
	a.X = kernels.NewMat(filled(b, kernels.F32, all), rows, len(logits))
	a.Uniform = filled(b, kernels.F64, uniform)
	a.Token = filled(b, kernels.I32, make([]int32, rows))
	a.LogProb, a.Entropy = filled(b, kernels.F32, make([]float32, rows)), filled(b, kernels.F32, make([]float32, rows))
	return &a
}

// manyLogits are logits as those of a language model: a few likely tokens above many that are not.
func manyLogits(n int) []float32 {
	x := make([]float32, n)
	rng.New(3).Normal(x, 0)
	for i := range x {
		x[i] *= 2.5
		if i%1999 == 7 {
			x[i] += 12
		}
	}
	return x
}

// TestDrawFrequencies: tokens are as frequent as they are likely. With a fixed seed Pearson's statistic is fixed; at
// the bound one seed in a thousand would lie above it.
func TestDrawFrequencies(t *testing.T) {
	b := NewWith(Options{Path: isa.Plain, Threads: 1})
	defer b.Close()
	for name, settings := range map[string]kernels.Draw{"all": {}, "top-p": {TopP: 0.8}, "top-k, warm": {Temperature: 2, TopK: 12}, "min-p": {MinP: 0.2}} {
		const rows, cols = 20000, 40
		logits := make([]float32, cols)
		for i := range logits {
			logits[i] = float32(i%7)/2 - float32(i%3)/4
		}
		a := drawing(b, logits, rows, settings)
		b.Draw(a)
		found := make([]float64, cols)
		for _, id := range a.Token.I32() {
			found[id]++
		}
		given := *a
		ids := make([]int32, rows)
		for i := range ids {
			ids[i] = int32(i % cols)
		}
		given.Given = filled(b, kernels.I32, ids)
		b.Draw(&given)
		statistic, free, sum := 0.0, -1.0, 0.0
		for i, l := range given.LogProb.F32()[:cols] {
			p := math.Exp(float64(l))
			if sum += p; p == 0 {
				if found[i] > 0 {
					t.Errorf("%s: token %d was drawn and has no probability", name, i)
				}
				continue
			}
			statistic += (found[i] - rows*p) * (found[i] - rows*p) / (rows * p)
			free++
		}
		// Wilson and Hilferty's approximation of the 99.9 % point.
		bound := free * math.Pow(1-2/(9*free)+3.09*math.Sqrt(2/(9*free)), 3)
		if t.Logf("%s: %.1f of %.0f degrees of freedom, bound %.1f", name, statistic, free, bound); statistic > bound || math.Abs(sum-1) > 1e-5 {
			t.Errorf("%s: frequencies are none of the probabilities, which add up to %g", name, sum)
		}
	}
}

// TestDrawOfVocabulary: at the width of a vocabulary log-probabilities and entropies are within 1e-5 of float64's, and
// bits are those of ref with any number of threads.
func TestDrawOfVocabulary(t *testing.T) {
	const cols, rows = 152064, 3
	path, err := isa.Choose()
	if err != nil {
		t.Skip(err)
	}
	logits := manyLogits(cols)
	for _, settings := range []kernels.Draw{{}, {Temperature: 0.7}, {TopK: 50}, {TopP: 0.9}, {TopK: 5000, TopP: 0.999, MinP: 1e-4}} {
		var bits []byte
		for _, o := range []Options{{Path: isa.Plain, Threads: 1}, {Path: path, Threads: 1}, {Path: path, Threads: 2}} {
			b := NewWith(o)
			a := drawing(b, logits, rows, settings)
			b.Draw(a)
			got := append(append(append([]byte{}, a.Token.Raw()...), a.LogProb.Raw()...), a.Entropy.Raw()...)
			if bits == nil {
				bits = got
				if settings.TopK == 0 && settings.TopP == 0 {
					nearFloat64(t, a, logits)
				}
			} else if string(got) != string(bits) {
				t.Errorf("%s, %+v: other bits than ref's", b, settings)
			}
			b.Close()
		}
	}
}

func nearFloat64(t *testing.T, a *kernels.Draw, logits []float32) {
	inverse := 1.0
	if a.Temperature != 0 {
		inverse = 1 / float64(a.Temperature)
	}
	sum, weighted := 0.0, 0.0
	for _, l := range logits {
		e := math.Exp(float64(l) * inverse)
		sum += e
		weighted += e * float64(l) * inverse
	}
	for r, id := range a.Token.I32() {
		want, entropy := float64(logits[id])*inverse-math.Log(sum), math.Log(sum)-weighted/sum
		if l, h := float64(a.LogProb.F32()[r]), float64(a.Entropy.F32()[r]); math.Abs(l-want) > 1e-5 || math.Abs(h-entropy) > 1e-5 {
			t.Errorf("row %d, temperature %g: log-probability %.7f and entropy %.7f, in float64 %.7f and %.7f", r, a.Temperature, l, h, want, entropy)
		}
	}
}

// A row without a token says why, and others are drawn beside it.
func TestDrawFailures(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, path := range []isa.Path{isa.Plain, isa.Best()} {
		b := NewWith(Options{Path: path, Threads: 1})
		defer b.Close()
		x := []float32{1, 2, nan, 3, inf, 0, -inf, -inf, 5, 0, 3, nan, nan, nan, nan}
		a := kernels.Draw{X: kernels.NewMat(filled(b, kernels.F32, x), 5, 3), Banned: filled(b, kernels.I32, []int32{4}),
			Token: filled(b, kernels.I32, make([]int32, 5)), LogProb: filled(b, kernels.F32, make([]float32, 5))}
		b.Draw(&a)
		for r, want := range []int32{1, -1, -2, 1, -1} {
			if got := a.Token.I32()[r]; got != want {
				t.Errorf("%s, row %d: token %d, want %d", b, r, got, want)
			}
		}
	}
}

func BenchmarkDraw(bench *testing.B) {
	path, err := isa.Choose()
	if err != nil {
		bench.Skip(err)
	}
	logits := manyLogits(152064)
	for name, settings := range map[string]kernels.Draw{"plain": {}, "top-k": {TopK: 50}, "top-p": {TopP: 0.9}, "min-p": {MinP: 0.05}} {
		for threads := 1; threads <= 2; threads++ {
			bench.Run(name+"/"+string(rune('0'+threads)), func(bench *testing.B) {
				b := NewWith(Options{Path: path, Threads: threads})
				defer b.Close()
				const rows = 8
				a := drawing(b, logits, rows, settings)
				a.Banned = filled(b, kernels.I32, make([]int32, kernels.Words(len(logits))))
				for bench.Loop() {
					b.Draw(a)
				}
				bench.ReportMetric(float64(bench.Elapsed().Microseconds())/float64(bench.N*rows), "µs/row")
			})
		}
	}
}
