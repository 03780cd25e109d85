package trainer

import (
	"math"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// rolledAt is a group of two samples of an iteration, worth a and b.
func rolledAt(iteration, prompt int, a, b float64) ([]Sample, []float64) {
	var all []Sample
	for k := range 2 {
		all = append(all, Sample{Key: Key{Iteration: iteration, Prompt: prompt, Sample: k}, Decisions: Decisions{LogProb: []float64{-float64(10*prompt + k)}}})
	}
	return all, []float64{a, b}
}

// TestBuffer: the rule of the selective sample buffer, derived from its paper's sentence (the authors published no
// code): samples without an advantage are not kept, kept ones are drawn with a probability in proportion to the size
// of their advantages, and come back as they were; samples that are too old do not come back.
func TestBuffer(t *testing.T) {
	const draws = 4000
	var times [3]float64
	for n := range draws {
		b := &Buffer{Age: 1, Groups: 1, Uniform: func(int, int) []float64 { return []float64{rng.New(7).Iteration(n).Draw().Float64()} }}
		var fresh []Sample
		var worth []float64
		for prompt, a := range []float64{0, 1, 3} { // mean |advantage|
			s, w := rolledAt(0, prompt, a, -a)
			fresh, worth = append(fresh, s...), append(worth, w...)
		}
		if again, _ := b.exchange(0, fresh, worth); len(again) != 0 || len(b.Kept) != 2 {
			t.Fatalf("of the first iteration %d samples come back, and %d groups are kept", len(again), len(b.Kept))
		}
		s, w := rolledAt(1, 9, 0, 0)
		again, value := b.exchange(1, s, w)
		if len(again) != 2 || again[0].Key.Prompt == 0 {
			t.Fatalf("%d samples come back, of prompt %d", len(again), again[0].Key.Prompt)
		}
		p := again[0].Key.Prompt
		times[p]++
		size := []float64{0, 1, 3}[p]
		for k, g := range again {
			if !g.Reused || g.Decisions.LogProb[0] != -float64(10*p+k) || g.Key.Iteration != 0 {
				t.Fatalf("it came back as %+v", g)
			}
		}
		if !slices.Equal(value, []float64{size, -size}) {
			t.Fatalf("and is worth %v", value)
		}
		if again, _ = b.exchange(2, s, w); len(again) != 0 || len(b.Kept) != 0 {
			t.Fatalf("after %d iterations %d samples come back", 2, len(again))
		}
	}
	if p := times[2] / draws; math.Abs(p-0.75) > 4*math.Sqrt(0.75*0.25/draws) {
		t.Errorf("the group with three times the advantage comes back %v of the time, and 0.75 is its share", p)
	}
}
