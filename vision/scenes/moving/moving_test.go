package moving

import (
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// TestScenes: a caption gives its scene again, some are held out, a wrong one differs in one word, and drawn things
// stay within the frame and move as the caption says.
func TestScenes(t *testing.T) {
	held := 0
	for i, s := range All() {
		if got, err := Parse(s.Prompt()); err != nil || got != s {
			t.Fatalf("%q is %+v, %v", s.Prompt(), got, err)
		}
		if HeldOut(s.Prompt()) {
			held++
		}
		k := rng.New(uint64(i))
		wrong := s.Corrupt(k.With("wrong").Draw())
		if (wrong.Heading != s.Heading) == (wrong.Pace != s.Pace) || wrong.Color != s.Color {
			t.Errorf("%+v became %+v", s, wrong)
		}
		at := Small.Jitter(k.With("place").Draw())
		c := Small.Draw(s, at)
		first, last := middle(Small, c.Frames[0]), middle(Small, c.Frames[Small.Frames-1])
		for axis, v := range s.Velocity() {
			if d := last[axis] - first[axis] - v*float64(Small.Frames-1); d > 0.3 || d < -0.3 {
				t.Errorf("%s: axis %d went %v", s.Prompt(), axis, last[axis]-first[axis])
			}
		}
	}
	if held < len(All())/10 || held > len(All())/4 {
		t.Errorf("%d of %d captions are held out", held, len(All()))
	}
	for _, text := range []string{"", "a cat", "a red circle moves left quickly on white", "the red circle moves left fast on white"} {
		if s, err := Parse(text); err == nil {
			t.Errorf("%q is %+v", text, s)
		}
	}
}

// middle is that of the pixels that differ from the first one.
func middle(f Format, px []uint8) (at [2]float64) {
	n := 0.0
	for i := 0; i < len(px); i += 3 {
		d := 0.0
		for c := range 3 {
			e := float64(px[i+c]) - float64(px[c])
			d += e * e
		}
		if d > 0 {
			at[0], at[1], n = at[0]+float64(i/3%f.Size), at[1]+float64(i/3/f.Size), n+1
		}
	}
	return [2]float64{at[0] / n, at[1] / n}
}

// TestLook: every frame of a drawn clip shows its caption; another colour, background or shape, nothing at all and a
// thing of twice the size are worth less.
func TestLook(t *testing.T) {
	for i, s := range All() {
		c := Small.Draw(s, Small.Jitter(rng.New(uint64(i)).With("place").Draw()))
		for n, px := range c.Frames {
			if l := Small.Look(s, px); l.Value < 0.9 {
				t.Fatalf("frame %d of %q is worth %+v", n, s.Prompt(), l)
			}
		}
		px := c.Frames[4]
		for _, wrong := range []struct {
			of   Scene
			most float64
		}{
			{Scene{other(Colors, s.Color, rng.New(1).Draw()), s.Shape, s.Heading, s.Pace, "", s.Background}, 0},
			{Scene{s.Color, s.Shape, s.Heading, s.Pace, "", other(Backgrounds, s.Background, rng.New(1).Draw())}, 0.01},
			{Scene{s.Color, other(Shapes, s.Shape, rng.New(1).Draw()), s.Heading, s.Pace, "", s.Background}, 0.88},
		} {
			if l := Small.Look(wrong.of, px); l.Value > wrong.most {
				t.Errorf("%q looks like %q: %+v", s.Prompt(), wrong.of.Prompt(), l)
			}
		}
		if l := Small.Look(s, Small.frame(s, 16, 16, 10)); l.Value > 0.65 {
			t.Errorf("%q twice as large: %+v", s.Prompt(), l)
		}
		if l := Small.Look(s, Small.frame(s, 100, 100, 5)); l.Value != 0 || l.Ground != 1 {
			t.Errorf("%q without a thing: %+v", s.Prompt(), l)
		}
	}
}

// TestTurns: a caption with a turn gives its scene again, its thing goes the one way and then the other and stays
// within the frame, and frames of the large format show their captions.
func TestTurns(t *testing.T) {
	all := Turning()
	if len(all) != 4*len(All()) {
		t.Errorf("%d scenes, with turns %d", len(All()), len(all))
	}
	for i, s := range all {
		if got, err := Parse(s.Prompt()); err != nil || got != s {
			t.Fatalf("%q is %+v, %v", s.Prompt(), got, err)
		}
		k := rng.New(uint64(i))
		wrong := s.Corrupt(k.With("wrong").Draw())
		if wrong == s || wrong.Then == wrong.Heading {
			t.Errorf("%+v became %+v", s, wrong)
		}
		if i%7 > 0 {
			continue
		}
		at := Large.Jitter(k.With("place").Draw())
		for _, c := range [][][]uint8{Large.Begin(s, at).Frames, Large.Draw(s, at).Frames} {
			half, last := len(c)/2, len(c)-1
			legs := s.Legs()
			for axis := range 2 {
				first := middle(Large, c[half])[axis] - middle(Large, c[0])[axis]
				then := middle(Large, c[last])[axis] - middle(Large, c[half])[axis]
				if d := first - legs[0][axis]*float64(half); d > 0.3 || d < -0.3 {
					t.Errorf("%s: axis %d went %v", s.Prompt(), axis, first)
				}
				if d := then - legs[len(legs)-1][axis]*float64(half); d > 0.3 || d < -0.3 {
					t.Errorf("%s: axis %d went %v, then %v", s.Prompt(), axis, first, then)
				}
			}
			for _, n := range []int{0, last} {
				px := c[n]
				if l := Large.Look(s, px); l.Value < 0.9 {
					t.Fatalf("frame %d of %q is worth %+v", n, s.Prompt(), l)
				}
			}
		}
	}
	for _, text := range []string{"a red circle moves left then left fast on white", "a red circle moves left then fast on white", "a red circle moves left then up on white"} {
		if s, err := Parse(text); err == nil {
			t.Errorf("%q is %+v", text, s)
		}
	}
}
