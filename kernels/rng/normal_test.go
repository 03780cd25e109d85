package rng

import (
	"math"
	"slices"
	"testing"
)

// TestNormalFormula compares with the float64 formula, at words at the edges of the reductions and at random ones.
func TestNormalFormula(t *testing.T) {
	words := []uint32{0, 1, 2, 3, 1 << 31, 1<<31 - 1, math.MaxUint32, math.MaxUint32 - 127, 0xb504f333, 0xb504f334}
	for b := range uint32(32) {
		words = append(words, 1<<b, 1<<b-1, -(1 << b))
	}
	more := make([]uint32, 1<<10)
	New(3).Words(more, 0)
	words = append(words, more...)
	worst := 0.0
	for _, x := range words {
		// -ln(u), from whichever of u and 1 - u is the smaller.
		ln := -math.Log((float64(x) + 0.5) * 0x1p-32)
		if x >= 1<<31 {
			ln = -math.Log1p(-(float64(^x) + 0.5) * 0x1p-32)
		}
		r := math.Sqrt(2 * ln)
		worst = max(worst, math.Abs(float64(radius(x))-r)/r)
	}
	t.Logf("largest relative error of the radius %.3g", worst)
	if worst > 4e-7 {
		t.Errorf("largest relative error of the radius %.3g", worst)
	}
	worst = 0
	for _, y := range words {
		s, c := math.Sincos(2 * math.Pi * (float64(y) + 0.5) * 0x1p-32)
		a, b := circle(y)
		worst = max(worst, math.Abs(float64(a)-s), math.Abs(float64(b)-c))
	}
	t.Logf("largest error on the circle %.3g", worst)
	if worst > 4e-7 {
		t.Errorf("largest error on the circle %.3g", worst)
	}
	for i, y := range words[1:] {
		x := words[i]
		a, b := boxMuller(x, y)
		s, c := circle(y)
		if a != radius(x)*s || b != radius(x)*c {
			t.Errorf("boxMuller(%#x, %#x) = %g, %g", x, y, a, b)
		}
	}
}

// TestMoments holds mean, variance, skewness and kurtosis to 4.5 of their own
// deviations.
func TestMoments(t *testing.T) {
	const n = 1 << 22
	z := make([]float32, n)
	New(11).With("moments").Normal(z, 0)
	var m1, m2, m3, m4 float64
	for _, x := range z {
		v := float64(x)
		m1, m2, m3, m4 = m1+v, m2+v*v, m3+v*v*v, m4+v*v*v*v
	}
	for _, c := range []struct {
		name           string
		sum, mean, dev float64
	}{
		{"mean", m1, 0, 1},
		{"variance", m2, 1, math.Sqrt2},
		{"third moment", m3, 0, math.Sqrt(15)},
		{"fourth moment", m4, 3, math.Sqrt(96)},
	} {
		if r := (c.sum/n - c.mean) / (c.dev / math.Sqrt(n)); math.Abs(r) > 4.5 {
			t.Errorf("%s is %g: %.1f deviations off", c.name, c.sum/n, r)
		}
	}
}

// TestDistribution is the test of Kolmogorov and Smirnov, for each of the four
// places in a block and for uniforms.
func TestDistribution(t *testing.T) {
	const n = 1 << 20
	k := New(12).With("distribution")
	z := make([]float32, n)
	cdf := func(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }
	k.Normal(z, 0)
	for lane := range 4 {
		part := make([]float32, 0, n/4)
		for i := lane; i < n; i += 4 {
			part = append(part, z[i])
		}
		checkKS(t, "normals", part, cdf)
	}
	k.Uniform(z, 0)
	checkKS(t, "uniforms", z, func(x float64) float64 { return x })
	k.UniformOpen(z, 0)
	checkKS(t, "open uniforms", z, func(x float64) float64 { return x })
}

func checkKS(t *testing.T, name string, x []float32, cdf func(float64) float64) {
	t.Helper()
	slices.Sort(x)
	n := float64(len(x))
	var d float64
	for i, v := range x {
		p := cdf(float64(v))
		d = max(d, p-float64(i)/n, float64(i+1)/n-p)
	}
	if d *= math.Sqrt(n); d > 1.95 { // exceeded once in a thousand
		t.Errorf("%s: Kolmogorov-Smirnov statistic %.2f", name, d)
	}
}

// TestTails counts normals beyond 2, 3, 4 and 5 deviations among 2^24 (about 5 beyond 5 on each side; see TestFarTail
// for where they end).
func TestTails(t *testing.T) {
	if testing.Short() {
		t.Skip("draws 2^24 normals")
	}
	const n, chunk = 1 << 24, 1 << 16
	k := New(13).With("tails")
	z := make([]float32, chunk)
	var low, high [6]float64
	for at := uint64(0); at < n; at += chunk {
		k.Normal(z, at)
		for _, x := range z {
			for s := 2; s <= 5; s++ {
				if x > float32(s) {
					high[s]++
				}
				if x < -float32(s) {
					low[s]++
				}
			}
		}
	}
	for s := 2; s <= 5; s++ {
		want := n * 0.5 * math.Erfc(float64(s)/math.Sqrt2)
		for side, got := range map[string]float64{"below": low[s], "above": high[s]} {
			if math.Abs(got-want) > 4.5*math.Sqrt(want)+1 {
				t.Errorf("%s %d deviations: %.0f of %d, expected %.1f", side, s, got, n, want)
			}
		}
	}
}

// TestFarTail: the smallest word gives the largest radius, 6.76, and the largest
// word the smallest.
func TestFarTail(t *testing.T) {
	want := math.Sqrt(2 * 33 * math.Ln2)
	if r := float64(radius(0)); math.Abs(r-want) > 1e-5 {
		t.Errorf("largest radius %g, want %g", r, want)
	}
	want = math.Sqrt(2 * 0x1p-33)
	if r := float64(radius(math.MaxUint32)); math.Abs(r-want) > 1e-5*want {
		t.Errorf("smallest radius %g, want %g", r, want)
	}
}

func BenchmarkNormal(b *testing.B) {
	z := make([]float32, 4096)
	k := New(1)
	b.ReportAllocs()
	for b.Loop() {
		k.Normal(z, 0)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/4096, "ns/normal")
}

func BenchmarkWords(b *testing.B) {
	w := make([]uint32, 4096)
	k := New(1)
	for b.Loop() {
		k.Words(w, 0)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/4096, "ns/word")
}
