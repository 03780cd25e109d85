package prompts

import (
	"math"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// threeLists are of 7, 5 and 40 prompts, with shares of 3, 1 and 4.
func threeLists() (shares []Share) {
	first := 0
	for _, l := range []struct {
		n     int
		share float64
	}{{7, 3}, {5, 1}, {40, 4}} {
		var s Share
		for i := range l.n {
			s.Places = append(s.Places, first+i)
		}
		first, s.Share = first+l.n, l.share
		shares = append(shares, s)
	}
	return shares
}

// TestMix: numbers follow shares, no iteration has a prompt twice, each list's epochs have every prompt once, and an
// iteration is the same whichever were asked for before.
func TestMix(t *testing.T) {
	const n, iterations = 9, 200
	shares := threeLists()
	m := NewMix(rng.New(3).With("prompts"), n, shares)
	var all []int
	for i := range iterations {
		one := m.Iteration(i)
		if sorted := slices.Compact(slices.Sorted(slices.Values(one))); len(sorted) != n {
			t.Fatalf("iteration %d has a prompt twice: %v", i, one)
		}
		all = append(all, one...)
	}
	for k, s := range shares {
		var of []int
		for _, p := range all {
			if slices.Contains(s.Places, p) {
				of = append(of, p)
			}
		}
		if want := s.Share / 8 * n * iterations; math.Abs(float64(len(of))-want) > 2 {
			t.Errorf("list %d: %d prompts, and its share is %v", k, len(of), want)
		}
		for at := 0; at+len(s.Places) <= len(of); at += len(s.Places) {
			if epoch := slices.Compact(slices.Sorted(slices.Values(of[at : at+len(s.Places)]))); len(epoch) != len(s.Places) {
				t.Fatalf("list %d: an epoch from %d on has %d of %d prompts", k, at, len(epoch), len(s.Places))
			}
		}
	}
	later := NewMix(rng.New(3).With("prompts"), n, shares)
	if got := later.Iteration(17); !slices.Equal(got, all[17*n:18*n]) || later.At(17*n+4) != all[17*n+4] || later.At(3) != all[3] {
		t.Errorf("asked for later, iteration 17 is %v", got)
	}
	if got := NewMix(rng.New(4).With("prompts"), n, shares).Iteration(0); slices.Equal(got, all[:n]) {
		t.Error("another key draws the same")
	}
}

// TestMixOfShort: a list with fewer prompts than its share of an iteration gives all of them.
func TestMixOfShort(t *testing.T) {
	m := NewMix(rng.New(1), 4, []Share{{[]int{0}, 9}, {[]int{1, 2, 3, 4}, 1}})
	for i := range 20 {
		one := m.Iteration(i)
		if sorted := slices.Compact(slices.Sorted(slices.Values(one))); len(sorted) != 4 || sorted[0] != 0 {
			t.Fatalf("iteration %d: %v", i, one)
		}
	}
}
