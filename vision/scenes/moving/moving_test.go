package moving

import (
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// TestScenes: a caption says its scene again, some are held out, a wrong one differs in one word, and what is drawn
// stays within the frame and moves as it says.
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
