package scenes

import (
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// TestPair: each kind of pair has the scores that its name says, over a hundred edits.
func TestPair(t *testing.T) {
	for made, want := range map[Made][2][2]float64{ // the least and the most that the mean of done and of kept may be
		Asked:  {{0.7, 1}, {0.999, 1}}, // a large object may reach beyond its rim
		Redone: {{0.6, 1}, {0, 0.5}},
		Kept:   {{0, 0}, {1, 1}},
		Other:  {{0, 0.35}, {0.6, 0.9}}, // the other object is half of what is kept
	} {
		var done, kept float64
		const n = 100
		for i := range n {
			e := RandomEdit(rng.New(3).Sample(i).Draw())
			before, after := e.Pair(made, rng.New(5).Sample(i).Draw())
			d, k, err := e.Score(before, after)
			if err != nil {
				t.Fatal(err)
			}
			if same := slices.Equal(before, after); same != (made == Kept) {
				t.Errorf("%s: %q of %q: the same picture is %v", made, e.Text, e.Before.Prompt, same)
			}
			done, kept = done+d/n, kept+k/n
		}
		t.Logf("%s: done %.3f, kept %.3f", made, done, kept)
		const little = 1e-9
		if done < want[0][0]-little || done > want[0][1]+little || kept < want[1][0]-little || kept > want[1][1]+little {
			t.Errorf("%s: done %.3f and kept %.3f, not in %v", made, done, kept, want)
		}
	}
}
