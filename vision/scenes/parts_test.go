package scenes

import (
	"bytes"
	"math"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// TestParts: parts are those of Draw's picture: their pixels have their colours, no pixel belongs to two, and boxes are
// those that Find reads from the pixels.
func TestParts(t *testing.T) {
	for i := range 60 {
		k := rng.New(3).Sample(i)
		s := Random(k.Draw(), Everything)
		if i%3 == 0 {
			s = Scattered(k.Draw())
		}
		px, parts := s.Parts(Jitter(k.With("jitter").Draw()))
		if !bytes.Equal(px, s.Draw(Jitter(k.With("jitter").Draw()))) {
			t.Fatalf("%q: another picture than Draw's", s.Prompt)
		}
		if want := len(s.Objects) + len(s.Text); len(parts) != want {
			t.Errorf("%q: %d parts, not %d", s.Prompt, len(parts), want)
		}
		for at := range Size * Size {
			all := 0.0
			for _, p := range parts {
				all += float64(p.Share[at])
				if c := color(p.Color); p.Share[at] == 1 && !bytes.Equal(px[3*at:3*at+3], c[:]) {
					t.Fatalf("%q: pixel %d is no %s", s.Prompt, at, p.Color)
				}
			}
			if all > 1 {
				t.Fatalf("%q: pixel %d belongs to %v parts", s.Prompt, at, all)
			}
		}
		if s.Family == Word {
			continue // its letters touch
		}
		things, err := Find(px)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range parts {
			b, _ := p.Box()
			best := 0.0
			for _, f := range things {
				if f.Color == p.Color {
					best = max(best, overlap(f.Box, b))
				}
			}
			if best < 0.75 {
				t.Errorf("%q: %s %s at %v, which pixels show with an overlap of %.2f", s.Prompt, p.Color, p.Label, b, best)
			}
		}
	}
}

// TestScattered: objects lie in the picture, and hardly touch.
func TestScattered(t *testing.T) {
	counts := map[int]int{}
	for i := range 200 {
		s := Scattered(rng.New(9).Sample(i).Draw())
		counts[len(s.Objects)]++
		for k, o := range s.Objects {
			for _, x := range o.Box {
				if x < 0 || x > Size || math.IsNaN(x) {
					t.Fatalf("an object at %v", o.Box)
				}
			}
			for _, other := range s.Objects[:k] {
				if touching(o.Box, other.Box) {
					t.Fatalf("%v and %v touch", o.Box, other.Box)
				}
			}
		}
	}
	for n := 1; n <= 4; n++ {
		if counts[n] == 0 {
			t.Errorf("of 200 scenes none has %d objects: %v", n, counts)
		}
	}
}

// TestWanted: the objects of a caption are the parts of its picture, in their places.
func TestWanted(t *testing.T) {
	for _, prompt := range []string{"a red circle on white", "three blue squares on gray", "a red circle left of a green triangle on black", `the word "CAT" in red on white`} {
		s, err := Parse(prompt)
		if err != nil {
			t.Fatal(err)
		}
		_, parts := s.Parts(nil)
		want := s.Wanted()
		if len(want) != len(parts) {
			t.Fatalf("%s: %d are wanted, %d are seen", prompt, len(want), len(parts))
		}
		for i, p := range parts {
			b, _ := p.Box()
			if w := want[i]; w.Shape != p.Label || w.Color != p.Color || overlap(w.Box, b) < 0.9 {
				t.Errorf("%s: %v is wanted, %s %s at %v is seen", prompt, w, p.Color, p.Label, b)
			}
		}
	}
}
