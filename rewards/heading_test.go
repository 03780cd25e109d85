package rewards

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
)

// TestHeading: the motion that was asked for is near 1; its opposite, another axis, rest, noise, cuts and a flash that
// goes that way are near 0, and half the speed lies between.
func TestHeading(t *testing.T) {
	s := moving.Scene{Color: "red", Shape: "circle", Heading: "left", Pace: "fast", Background: "white"}
	at := moving.Place{X: 1.3, Y: -0.7, Half: 5.5}
	as := func(heading, pace string) *video.Clip {
		other := s
		other.Heading, other.Pace = heading, pace
		return moving.Small.Draw(other, at)
	}
	still := moving.Small.Draw(s, at)
	noise, cuts := moving.Small.Draw(s, at), moving.Small.Draw(s, at)
	r := rand.New(rand.NewPCG(1, 2))
	for f := range still.Frames {
		still.Frames[f] = still.Frames[0]
		for i := range noise.Frames[f] {
			noise.Frames[f][i] = uint8(r.IntN(256))
		}
		cuts.Frames[f] = as([]string{"left", "right", "up", "down"}[f%4], "fast").Frames[(f*5)%moving.Small.Frames]
	}
	for name, c := range map[string]struct {
		clip        *video.Clip
		least, most float64
	}{
		"as asked": {moving.Small.Draw(s, at), 0.78, 1}, "backwards": {as("right", "fast"), 0, 0}, "upwards": {as("up", "fast"), 0, 0.02},
		"slower": {as("left", "slowly"), 0.3, 0.5}, "still": {still, 0, 0}, "noise": {noise, 0, 0.1}, "cuts": {cuts, 0, 0.2},
	} {
		got, err := Heading{}.Score(t.Context(), Item{Prompt: s.Prompt(), Clip: c.clip})
		if err != nil || got.Value < c.least || got.Value > c.most {
			t.Errorf("%s: %v, %v; from %v to %v", name, got, err, c.least, c.most)
		}
	}
	half := Item{Prompt: "pan left", Meta: Meta{"motion": json.RawMessage("[-2.25, 0]")}, Clip: moving.Small.Draw(s, at)}
	if got, err := (Heading{MotionOptions: MotionOptions{PerSecond: 8}}).Score(t.Context(), half); err != nil || got.Value < 0.7 {
		t.Errorf("every second frame: %+v, %v", got, err)
	}
	turns := s
	turns.Then = "up"
	turned := Item{Prompt: turns.Prompt(), Clip: moving.Large.Draw(turns, moving.Place{Half: 8})}
	if got, err := (Heading{}).Score(t.Context(), turned); err != nil || got.Value < 0.85 {
		t.Errorf("a turn: %+v, %v", got, err)
	}
	turned.Prompt, turned.Meta = "left, then up", Meta{"motion": json.RawMessage("[[-2.25, 0], [0, -2.25]]")}
	if got, err := (Heading{}).Score(t.Context(), turned); err != nil || got.Value < 0.85 {
		t.Errorf("a turn asked for in numbers: %+v, %v", got, err)
	}
	slices.Reverse(turned.Clip.Frames) // downwards, then right
	if got, err := (Heading{}).Score(t.Context(), turned); err != nil || got.Value > 0.02 {
		t.Errorf("a turn backwards: %+v, %v", got, err)
	}
	turned.Clip = moving.Large.Draw(s, moving.Place{Half: 8})
	if got, err := (Heading{}).Score(t.Context(), turned); err != nil || got.Value < 0.4 || got.Value > 0.55 {
		t.Errorf("half of a turn: %+v, %v", got, err)
	}
	words := Item{Clip: moving.Large.Draw(turns, moving.Place{Half: 8})} // to the left, then up
	for prompt, c := range map[string]struct{ least, most float64 }{
		"a disc moves to the left, then upwards": {0.85, 1}, "it goes up and then from right to left": {0, 0.05}, "it flies to the left": {0.3, 0.55},
		"it runs right": {0, 0.05}, "a disc moving left then rolling up on the right of a tree": {0.85, 1},
	} {
		words.Prompt = prompt
		if got, err := (Heading{}).Score(t.Context(), words); err != nil || got.Value < c.least || got.Value > c.most {
			t.Errorf("%q: %+v, %v; from %v to %v", prompt, got, err, c.least, c.most)
		}
	}
	words.Prompt = turns.Prompt() // clips that have a half of its motion right
	of := func(heading, then, pace string) *video.Clip {
		other := turns
		other.Heading, other.Then, other.Pace = heading, then, pace
		return moving.Large.Draw(other, moving.Place{Half: 8})
	}
	for name, c := range map[string]struct {
		measure     string
		clip        *video.Clip
		least, most float64
	}{
		"direction, slowly": {"direction", of("left", "up", "slowly"), 0.8, 1}, "direction, elsewhere": {"direction", of("right", "down", "fast"), 0, 0.02},
		"direction, in the other order": {"direction", of("up", "left", "fast"), 0, 0.05},
		"speed, elsewhere":              {"speed", of("right", "down", "fast"), 0.8, 1}, "speed, slowly": {"speed", of("left", "up", "slowly"), 0.3, 0.5},
		"both, slowly": {"motion", of("left", "up", "slowly"), 0.3, 0.5},
	} {
		words.Clip = c.clip
		if got, err := (Heading{Measure: c.measure}).Score(t.Context(), words); err != nil || got.Value < c.least || got.Value > c.most {
			t.Errorf("%s: %+v, %v; from %v to %v", name, got, err, c.least, c.most)
		}
	}
	words.Prompt = "it flies to the left"
	if _, err := (Heading{Measure: "speed"}).Score(t.Context(), words); !errors.Is(err, errAnySpeed) {
		t.Errorf("the speed of words: %v", err)
	}
	for prompt, meta := range map[string]Meta{"a dog to the left of a tree": nil, "a cat": nil, "rest": {"motion": json.RawMessage("[0, 0]")}, "a leg of rest": {"motion": json.RawMessage("[[1, 0], [0, 0]]")}, "odd": {"motion": json.RawMessage(`"left"`)}} {
		if _, err := (Heading{}).Score(t.Context(), Item{Prompt: prompt, Meta: meta, Clip: moving.Small.Draw(s, at)}); err == nil {
			t.Errorf("%q has a heading", prompt)
		}
	}
	if _, err := (Heading{}).Score(t.Context(), Item{Prompt: s.Prompt()}); !errors.Is(err, errNoClip) {
		t.Errorf("without a clip: %v", err)
	}
}
