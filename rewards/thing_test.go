package rewards

import (
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
)

// TestThing: a clip that is drawn as its caption says scores nearly 1 in every frame, under another caption less, and
// other items have no score.
func TestThing(t *testing.T) {
	s := moving.Scene{Color: "red", Shape: "circle", Heading: "left", Pace: "fast", Background: "white"}
	c := moving.Small.Draw(s, moving.Small.Jitter(rng.New(1).Draw()))
	by := Framed{Of: Each(Thing{}, 2)}
	other := s
	other.Background = "black"
	got := by.Judge(t.Context(), []Item{
		{Prompt: s.Prompt(), Clip: c}, {Prompt: other.Prompt(), Clip: c}, {Prompt: "a cat", Clip: c}, {Prompt: s.Prompt()},
	})
	if got[0].Missing != nil || got[0].Value < 0.9 || got[0].Parts["ground"] < 0.99 {
		t.Errorf("as asked for: %+v", got[0])
	}
	if got[1].Missing != nil || got[1].Value > 0.05 {
		t.Errorf("another background: %+v", got[1])
	}
	if got[2].Missing == nil || got[3].Missing == nil {
		t.Errorf("judged without a caption or a picture: %+v, %+v", got[2], got[3])
	}
	wide := moving.Small.Draw(s, moving.Place{Half: 5})
	wide.Width, wide.Height = 64, 16
	if got := by.Judge(t.Context(), []Item{{Prompt: s.Prompt(), Clip: wide}}); got[0].Missing == nil {
		t.Errorf("another size is worth %v", got[0].Value)
	}
}
