package scenes

import (
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// TestEdits: the wanted scene, drawn, scores above a half in every part; the picture as it was is not done, and
// another scene is not kept, though it may be done; nor is one whose other object has another colour.
func TestEdits(t *testing.T) {
	kinds := map[string]int{}
	for n := range 60 {
		e := RandomEdit(rng.New(3).With("edit").Sample(n).Draw())
		kinds[e.Text[:4]]++
		before, after := e.Before.Draw(nil), e.After.Draw(nil)
		if done, kept, err := e.Score(before, after); err != nil || done < 0.8 || kept < 0.99 {
			t.Errorf("%q of %q: done %v, kept %v (%v)", e.Text, e.Before.Prompt, done, kept, err)
		}
		if done, kept, err := e.Score(before, before); err != nil || done != 0 || kept != 1 {
			t.Errorf("%q of %q, as it was: done %v, kept %v (%v)", e.Text, e.Before.Prompt, done, kept, err)
		}
		other := e.After
		other.Background = map[string]string{"white": "black", "black": "gray", "gray": "white"}[other.Background]
		if _, kept, err := e.Score(before, other.Draw(nil)); err != nil || kept > 0.5 {
			t.Errorf("%q of %q, drawn anew: kept %v (%v)", e.Text, e.Before.Prompt, kept, err)
		}
		painted := e.After
		painted.Objects = slices.Clone(e.After.Objects)
		for i, o := range painted.Objects {
			if o.Shape != strings.Fields(e.Text)[2] {
				painted.Objects[i].Color = Colors[(slices.Index(Colors, o.Color)+1)%len(Colors)]
			}
		}
		if _, kept, err := e.Score(before, painted.Draw(nil)); err != nil || kept > 0.6 {
			t.Errorf("%q of %q, the other object painted over: kept %v (%v)", e.Text, e.Before.Prompt, kept, err)
		}
		again, err := EditOf(e.Before.Prompt, e.Text)
		if err != nil || len(again.After.Objects) != len(e.After.Objects) {
			t.Errorf("%q: %v", e.Text, err)
		}
	}
	if len(kinds) != 3 {
		t.Errorf("kinds of edits: %v", kinds)
	}
	for _, bad := range []string{"", "remove the star", "make the circle", "make the circle pink", "move the circle away", "paint the circle red"} {
		if _, err := EditOf("a red circle left of a blue square on white", bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// TestPair: each kind of pair has the scores that its name says, over a hundred edits.
func TestPair(t *testing.T) {
	for made, want := range map[Made][2][2]float64{ // the least and the most that the mean of done and of kept may be
		Requested: {{0.7, 1}, {0.999, 1}}, // a large object may reach beyond its rim
		Redone:    {{0.6, 1}, {0, 0.5}},
		Kept:      {{0, 0}, {1, 1}},
		Other:     {{0, 0.35}, {0.6, 0.9}}, // the other object is half of the kept pixels
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
