package neural

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/rewards/evidence"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// sees is a detector that always sees the same.
type sees []rewards.Detection

func (s sees) Detect(context.Context, *vision.Image, []string) ([]rewards.Detection, error) {
	if s == nil {
		return nil, errors.New("blind")
	}
	return slices.Clone(s), nil
}

func found(class, color string, box boxes.Box, score float64) rewards.Detection {
	return rewards.Detection{Class: class, Color: color, Box: box, Score: score}
}

func thing(class, color string, x, y float64) rewards.Detection {
	return found(class, color, boxes.Box{x, y, x + 10, y + 10}, 0.95)
}

func TestGenEval(t *testing.T) {
	bench, dog := thing("bench", "red", 0, 0), thing("dog", "green", 50, 0)
	for _, c := range []struct {
		name, wish      string
		seen            sees
		correct, strict float64
		soft, slip      float64
	}{
		{"there", `{"include": [{"class": "bench", "count": 1}]}`, sees{bench}, 1, 1, 1, 1},
		{"not there", `{"include": [{"class": "bench", "count": 1}]}`, sees{dog}, 0, 0, 0, 0},
		{"one too many", `{"include": [{"class": "dog", "count": 1}]}`, sees{dog, thing("dog", "", 70, 0)}, 1, 0, 0, 0},
		{"three for one", `{"include": [{"class": "dog", "count": 1}]}`, sees{dog, dog, dog}, 1, 0, -1, -1},
		{"excluded", `{"include": [{"class": "dog", "count": 1}], "exclude": [{"class": "dog", "count": 2}]}`, sees{dog, thing("dog", "", 70, 0)}, 0, 0, 0, 0},
		{"the colour", `{"include": [{"class": "bench", "count": 1, "color": "red"}]}`, sees{bench}, 1, 1, 1, 1},
		{"another colour", `{"include": [{"class": "bench", "count": 1, "color": "blue"}]}`, sees{bench}, 0, 0, 0.5, 0.5},
		{"the place", `{"include": [{"class": "bench", "count": 1}, {"class": "dog", "count": 1, "position": ["right of", 0]}]}`, sees{bench, dog}, 1, 1, 1, 1},
		{"another place", `{"include": [{"class": "bench", "count": 1}, {"class": "dog", "count": 1, "position": ["above", 0]}]}`, sees{bench, dog}, 0, 0, 2. / 3, 3. / 4},
		{"no target", `{"include": [{"class": "cat", "count": 1}, {"class": "dog", "count": 1, "position": ["above", 0]}]}`, sees{bench, dog}, 0, 0, 1. / 3, 1. / 3},
		{"unsure", `{"tag": "counting", "include": [{"class": "dog", "count": 1}]}`, sees{found("dog", "", dog.Box, 0.8)}, 0, 0, 0, 0},
	} {
		g := GenEval{Detector: c.seen, GenEvalRules: usualGenEval()}
		item := rewards.Item{Image: vision.New(1, 1), Meta: meta(t, `{"geneval": `+c.wish+`}`)}
		got, err := g.Score(t.Context(), item)
		if err != nil || !near(got.Value, c.soft) || got.Parts["correct"] != c.correct || got.Parts["strict"] != c.strict {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
		g.UpstreamSlip = true
		if got, _ := g.Score(t.Context(), item); !near(got.Value, c.slip) {
			t.Errorf("%s: with upstream's slip %v, want %v", c.name, got.Value, c.slip)
		}
		if c.strict == 0 && !slices.ContainsFunc(got.Evidence, func(e evidence.Reason) bool { return e.What == "wrong" }) {
			t.Errorf("%s: it does not say what is wrong: %+v", c.name, got.Evidence)
		}
	}
}

func TestGenEvalMissing(t *testing.T) {
	for name, c := range map[string]struct {
		seen sees
		meta string
	}{
		"blind":            {nil, `{"geneval": {}}`},
		"no wish":          {sees{}, `{}`},
		"a count of none":  {sees{}, `{"geneval": {"include": [{"class": "dog", "count": 0}]}}`},
		"beside itself":    {sees{}, `{"geneval": {"include": [{"class": "dog", "count": 1, "position": ["above", 0]}]}}`},
		"a place of three": {sees{}, `{"geneval": {"include": [{"class": "dog", "count": 1, "position": ["above", 0, 1]}]}}`},
	} {
		g := GenEval{Detector: c.seen, GenEvalRules: usualGenEval()}
		if s, err := g.Score(t.Context(), rewards.Item{Image: vision.New(1, 1), Meta: meta(t, c.meta)}); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestKeep(t *testing.T) {
	g := usualGenEval()
	g.MostObjects, g.MaxOverlap = 3, 0.5
	seen := []rewards.Detection{found("dog", "", boxes.Box{0, 0, 10, 10}, 0.5), found("dog", "", boxes.Box{1, 0, 11, 10}, 0.9), found("dog", "", boxes.Box{40, 0, 50, 10}, 0.4), found("dog", "", boxes.Box{80, 0, 90, 10}, 0.35), found("dog", "", boxes.Box{0, 80, 9, 90}, 0.3)}
	kept := g.Keep(seen, "")["dog"]
	if len(kept) != 2 || kept[0].Score != 0.9 || kept[1].Score != 0.4 {
		t.Errorf("kept %v", kept)
	}
	if kept := g.Keep(seen, "counting")["dog"]; len(kept) != 0 {
		t.Errorf("sure enough to be counted: %v", kept)
	}
}

func TestRelations(t *testing.T) {
	g, at := usualGenEval(), boxes.Box{0, 0, 10, 10}
	for _, c := range []struct {
		x, y float64
		want []string
	}{{20, 0, []string{"left of"}}, {-20, 0, []string{"right of"}}, {20, 20, []string{"left of", "above"}}, {0, -20, []string{"below"}}, {0, 0, nil}, {1, 1, nil}} {
		if got := g.Relations(at, boxes.Box{c.x, c.y, c.x + 10, c.y + 10}); !slices.Equal(got, c.want) {
			t.Errorf("seen from %v, %v: %v", c.x, c.y, got)
		}
	}
}

func usualGenEval() (g GenEvalRules) { g.SetDefaults(); return g }

// TestGenEvalValue: a verdict can be the reward.
func TestGenEvalValue(t *testing.T) {
	dog := thing("dog", "", 0, 0)
	for value, want := range map[string]float64{"soft": 0, "correct": 1, "strict": 0} {
		g := GenEval{Detector: sees{dog, thing("dog", "", 70, 0)}, GenEvalRules: usualGenEval()}
		g.Value = value
		got, err := g.Score(t.Context(), rewards.Item{Image: vision.New(1, 1), Meta: meta(t, `{"geneval": {"include": [{"class": "dog", "count": 1}]}}`)})
		if err != nil || got.Value != want {
			t.Errorf("%s: %+v, %v", value, got, err)
		}
	}
}

// The segmentation serves as GenEval's detector, too.
func TestGenEvalOnScenes(t *testing.T) {
	s, _ := scenes.Parse("a red circle left of a blue square on white")
	g := GenEval{Detector: rewards.SceneDetector{}, GenEvalRules: usualGenEval()}
	wish := `{"geneval": {"include": [{"class": "square", "count": 1, "color": "blue"}, {"class": "circle", "count": 1, "color": "red", "position": ["left of", 0]}]}}`
	got, err := g.Score(t.Context(), rewards.Item{Prompt: s.Prompt, Image: &vision.Image{Width: scenes.Size, Height: scenes.Size, Pix: s.Draw(nil)}, Meta: meta(t, wish)})
	if err != nil || got.Value != 1 || got.Parts["strict"] != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12*(1+math.Abs(b)) }

func meta(t *testing.T, text string) (m rewards.Meta) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m
}
