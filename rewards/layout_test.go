package rewards

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/vision"
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
	if err != nil || s.Value != 1 || len(s.Evidence) != 2 || s.Evidence[0].Value != 1 {
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
