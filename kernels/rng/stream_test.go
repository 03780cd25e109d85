package rng

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

var _ rand.Source = (*Stream)(nil)

// TestStreamIsTheWords: a stream is the key's words in order.
func TestStreamIsTheWords(t *testing.T) {
	k := New(4).With("stream")
	want := make([]uint32, 11)
	k.Words(want, 0)
	s := k.Draw()
	for i, w := range want {
		if got := s.Uint32(); got != w {
			t.Fatalf("word %d is %08x, want %08x", i, got, w)
		}
	}
}

// TestIntn is a chi-square test for sizes where a plain remainder of a short
// word would show, and of bounds.
func TestIntn(t *testing.T) {
	s := New(5).With("intn").Draw()
	for _, n := range []int{1, 2, 3, 7, 10, 64, 1000} {
		draws := 1000 * n
		count := make([]float64, n)
		for range draws {
			count[s.Intn(n)]++
		}
		var chi float64
		for _, c := range count {
			chi += (c - 1000) * (c - 1000) / 1000
		}
		free := float64(n - 1)
		if chi > free+4.5*math.Sqrt(2*free)+5 {
			t.Errorf("Intn(%d): chi-square %.1f with %g degrees of freedom", n, chi, free)
		}
	}
	// 3/4 of 2^63: a product's high half without rejection would favour numbers
	// whose remainder is small.
	const big = 3 << 61
	third := 0
	for range 30000 {
		if s.Intn(big) < big/3 {
			third++
		}
	}
	if math.Abs(float64(third)-10000) > 4.5*82 {
		t.Errorf("Intn(3<<61): %d of 30000 in the first third", third)
	}
	defer func() {
		if recover() == nil {
			t.Error("Intn(0) did not panic")
		}
	}()
	s.Intn(0)
}

// TestPerm: every order of four things comes up equally often.
func TestPerm(t *testing.T) {
	s := New(6).With("perm").Draw()
	count := map[[4]int]float64{}
	for range 24000 {
		count[[4]int(s.Perm(4))]++
	}
	if len(count) != 24 {
		t.Fatalf("%d orders of four", len(count))
	}
	var chi float64
	for _, c := range count {
		chi += (c - 1000) * (c - 1000) / 1000
	}
	if chi > 23+4.5*math.Sqrt(46) {
		t.Errorf("chi-square %.1f with 23 degrees of freedom", chi)
	}
	p := s.Perm(100)
	slices.Sort(p)
	for i, v := range p {
		if i != v {
			t.Fatalf("Perm(100) is no permutation: %v", p)
		}
	}
}

func TestFloat64(t *testing.T) {
	s := New(8).Draw()
	x := make([]float32, 1<<16)
	for i := range x {
		x[i] = float32(s.Float64())
	}
	checkKS(t, "Float64", x, func(x float64) float64 { return x })
}
