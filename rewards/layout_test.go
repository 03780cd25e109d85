package rewards

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// sees is a detector that always sees the same.
type sees []Detection

func (s sees) Detect(context.Context, *vision.Image, []string) ([]Detection, error) {
	if s == nil {
		return nil, errors.New("blind")
	}
	return slices.Clone(s), nil
}

func thing(class, color string, x, y float64) Detection {
	return Detection{Class: class, Color: color, Box: boxes.Box{x, y, x + 10, y + 10}, Score: 0.95}
}

func TestLayout(t *testing.T) {
	l := Layout{Detector: sees{thing("dog", "", 0, 0), thing("cat", "", 50, 50)}}
	item := Item{Image: vision.New(1, 1), Meta: meta(t, `{"boxes": [{"label": "cat", "box": [50, 50, 60, 60]}, {"label": "dog", "box": [0, 0, 10, 10]}]}`)}
	s, err := l.Score(t.Context(), item)
	if err != nil || s.Value != 1 || len(s.Evidence) != 4 || s.Evidence[1].What != "asked for" || s.Evidence[2].Value != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	for name, c := range map[string]struct {
		l    Layout
		item Item
	}{"no picture": {l, Item{Meta: item.Meta}}, "no boxes": {l, Item{Image: item.Image}}, "blind": {Layout{Detector: sees(nil)}, item}} {
		if s, err := c.l.Score(t.Context(), c.item); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// TestLayoutOfScenes: a scene's caption without meta.boxes wants its objects in their places, by any detector.
func TestLayoutOfScenes(t *testing.T) {
	for prompt, found := range map[string]Detector{
		"a red circle left of a blue square on white": SceneDetector{},
		"three green triangles on black":              SceneDetector{},
		`the word "CAT" in red on white`: sees{{Class: scenes.Letter, Color: "red", Box: boxes.Box{5, 23, 23, 41}}, {Class: scenes.Letter, Color: "red", Box: boxes.Box{23, 23, 41, 41}},
			{Class: scenes.Letter, Color: "red", Box: boxes.Box{41, 23, 59, 41}}},
	} {
		s, err := scenes.Parse(prompt)
		if err != nil {
			t.Fatal(err)
		}
		item := Item{Prompt: prompt, Image: &vision.Image{Width: scenes.Size, Height: scenes.Size, Pix: s.Draw(nil)}}
		if got, err := (Layout{Detector: found}).Score(t.Context(), item); err != nil || got.Value < 0.8 {
			t.Errorf("%s: %+v, %v", prompt, got, err)
		}
		item.Meta = meta(t, `{"boxes": [{"label": "circle", "box": [0, 0, 5, 5]}]}`)
		if got, err := (Layout{Detector: found}).Score(t.Context(), item); err != nil || got.Value > 0.1 {
			t.Errorf("%s: meta.boxes does not count: %+v, %v", prompt, got, err)
		}
	}
}
