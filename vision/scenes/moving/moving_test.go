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
		at := Jitter(k.With("place").Draw())
		c := s.Draw(at)
		first, last := middle(c.Frames[0]), middle(c.Frames[Frames-1])
		for axis, v := range s.Velocity() {
			if d := last[axis] - first[axis] - v*(Frames-1); d > 0.3 || d < -0.3 {
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
func middle(px []uint8) (at [2]float64) {
	n := 0.0
	for i := 0; i < len(px); i += 3 {
		d := 0.0
		for c := range 3 {
			e := float64(px[i+c]) - float64(px[c])
			d += e * e
		}
		if d > 0 {
			at[0], at[1], n = at[0]+float64(i/3%Size), at[1]+float64(i/3/Size), n+1
		}
	}
	return [2]float64{at[0] / n, at[1] / n}
}

// TestLook: every frame of a drawn clip shows its caption; another colour, background or shape, nothing at all and a
// thing of twice the size are worth less.
func TestLook(t *testing.T) {
	for i, s := range All() {
		c := s.Draw(Jitter(rng.New(uint64(i)).With("place").Draw()))
		for n, px := range c.Frames {
			if l := s.Look(px); l.Value < 0.9 {
				t.Fatalf("frame %d of %q is worth %+v", n, s.Prompt(), l)
			}
		}
		px := c.Frames[4]
		for _, wrong := range []struct {
			of   Scene
			most float64
		}{
			{Scene{other(Colors, s.Color, rng.New(1).Draw()), s.Shape, s.Heading, s.Pace, s.Background}, 0},
			{Scene{s.Color, s.Shape, s.Heading, s.Pace, other(Backgrounds, s.Background, rng.New(1).Draw())}, 0.01},
			{Scene{s.Color, other(Shapes, s.Shape, rng.New(1).Draw()), s.Heading, s.Pace, s.Background}, 0.88},
		} {
			if l := wrong.of.Look(px); l.Value > wrong.most {
				t.Errorf("%q looks like %q: %+v", s.Prompt(), wrong.of.Prompt(), l)
			}
		}
		if l := s.Look(s.frame(16, 16, 10)); l.Value > 0.65 {
			t.Errorf("%q twice as large: %+v", s.Prompt(), l)
		}
		if l := s.Look(s.frame(100, 100, 5)); l.Value != 0 || l.Ground != 1 {
			t.Errorf("%q without a thing: %+v", s.Prompt(), l)
		}
	}
}
