package rewards

import (
	"context"
	"errors"
	"image"
	"image/color"
	"math"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
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

// TestLayoutExtra: by a detector of ours a thing that nobody asked for costs nothing, or counts as a box too many.
func TestLayoutExtra(t *testing.T) {
	const prompt = "a red circle on white"
	scene, err := scenes.Parse(prompt)
	if err != nil {
		t.Fatal(err)
	}
	m := &vision.Image{Width: scenes.Size, Height: scenes.Size, Pix: scene.Draw(nil)}
	m.Fill(image.Rect(3, 3, 19, 19), color.RGBA{45, 85, 205, 255})
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	pool := tensor.NewPool(be)
	bench := Bench{Device: func() (*features.Device, error) { return features.On(pool, features.F32), nil }}
	score := func(table string) (float64, error) {
		key := NetworkKeys{PathKey: PathKey{Path: "embed:tiny-mask2former"}}
		options := &LayoutOptions{}
		options.SetDefaults()
		options.Extra = table
		o, err := LayoutKind.Open(layoutKeys{NetworkKeys: key, LayoutKey: LayoutKey{options},
			DetectorKey: DetectorKey{&DetectorOptions{Box: "xyxy", Least: 0.5, Overlap: 0.5, Order: "rgb"}}}, bench)
		if err != nil {
			return 0, err
		}
		defer func() { _ = o.Close() }()
		got := o.Judge.Judge(t.Context(), []Item{{Prompt: prompt, Image: m}})
		return got[0].Value, got[0].Missing
	}
	ignored, err := score("ignore")
	if err != nil || ignored < 0.7 {
		t.Fatalf("ignored, it is worth %v, %v", ignored, err)
	}
	if counted, err := score("count"); err != nil || math.Abs(counted-ignored/2) > 0.01 {
		t.Errorf("counted, it is worth %v, %v; alone %v", counted, err, ignored)
	}
}
