package rewards

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// TestFramed: a clip's score is the rule's result over its frames, a picture's its own; a frame without a score
// leaves its clip without one, and no other.
func TestFramed(t *testing.T) {
	tone := Each(Func(func(_ context.Context, item Item) (Score, error) {
		if item.Image.Pix[0] == 99 {
			return Score{}, errors.New("unreadable")
		}
		v := float64(item.Image.Pix[0])
		return Score{Value: v, Parts: map[string]float64{"tone": v}}, nil
	}), 2)
	clip := func(tones ...uint8) Item {
		c := &video.Clip{Width: 1, Height: 1}
		for _, v := range tones {
			c.Frames = append(c.Frames, []uint8{v, 0, 0})
		}
		return Item{Clip: c}
	}
	picture := Item{Image: &vision.Image{Width: 1, Height: 1, Pix: []uint8{7, 0, 0}}}
	for how, want := range map[string]float64{"": 30, "mean": 30, "worst": 10, "best:0.5": 45, "best:0.1": 50, "best:1": 30} {
		rule, err := ParseFrames(how)
		if err != nil {
			t.Fatal(err)
		}
		got := Framed{tone, rule}.Judge(t.Context(), []Item{clip(20, 50, 10, 40, 30), picture, clip(1, 99), clip(4, 4, 4)})
		if r := got[0]; r.Missing != nil || math.Abs(r.Value-want) > 1e-12 || math.Abs(r.Parts["tone"]-want) > 1e-12 || len(r.Evidence) != 5 {
			t.Errorf("%q: %+v, not %v", how, r, want)
		}
		if got[1].Value != 7 || got[2].Missing == nil || got[3].Value != 4 {
			t.Errorf("%q: %+v", how, got[1:])
		}
	}
	if got := (Framed{tone, FrameRule{Every: 2}}).Judge(t.Context(), []Item{clip(20, 50, 10, 99, 30)}); got[0].Value != 20 {
		t.Errorf("every second frame: %+v", got[0])
	}
	for _, how := range []string{"best", "best:0", "best:1.5", "best:x", "median"} {
		if _, err := ParseFrames(how); err == nil {
			t.Errorf("%q is a rule", how)
		}
	}
}
