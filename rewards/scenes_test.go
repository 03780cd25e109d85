package rewards

import (
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/rewards/boxes"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

func picture(s scenes.Scene, shift scenes.Shift) *vision.Image {
	return &vision.Image{Width: scenes.Size, Height: scenes.Size, Pix: s.Draw(shift)}
}

// A scene is worth more under its own caption than under another one, by every reward of it.
func TestScenesAreTheirOwnBest(t *testing.T) {
	r := rng.New(3).With("scene").Draw()
	for range 40 {
		a, b := scenes.Random(r, scenes.Everything), scenes.Random(r, scenes.Everything)
		if a.Prompt == b.Prompt {
			continue
		}
		for name, reward := range map[string]Reward{"layout": SceneLayout{}, "generalised": SceneLayout{boxes.Matching{Score: "giou"}}, "task": SceneTask{}, "strict": SceneTask{Strict: true}} {
			own, err := reward.Score(t.Context(), Item{Prompt: a.Prompt, Image: picture(a, scenes.Canonical)})
			if err != nil || own.Value < 0.85 {
				t.Errorf("%s: %q drawn as asked for is %v, %v", name, a.Prompt, own.Value, err)
			}
			other, err := reward.Score(t.Context(), Item{Prompt: a.Prompt, Image: picture(b, scenes.Canonical)})
			if err != nil || name != "strict" && other.Value >= own.Value {
				t.Errorf("%s: %q drawn as %q is %v, %v", name, a.Prompt, b.Prompt, other.Value, err)
			}
		}
	}
}

func TestSceneTaskIsThatOfScenes(t *testing.T) {
	r := rng.New(4).With("scene").Draw()
	for range 20 {
		s := scenes.Random(r, scenes.Everything)
		m := picture(s, scenes.Jitter(r))
		want := s.Score(m.Pix)
		total, err := SceneTask{}.Score(t.Context(), Item{Prompt: s.Prompt, Image: m})
		strict, err2 := SceneTask{Strict: true}.Score(t.Context(), Item{Prompt: s.Prompt, Image: m})
		if err != nil || err2 != nil || total.Value != want.Total || total.Parts["task"] != want.Task || strict.Value != truth(want.Strict) || len(total.Evidence) == 0 {
			t.Errorf("%q: %+v, %+v, want %+v, %v, %v", s.Prompt, total, strict, want, err, err2)
		}
	}
}

func TestSceneWords(t *testing.T) {
	cat, _ := scenes.Parse(`the word "CAT" in red on white`)
	car, _ := scenes.Parse(`the word "CAR" in red on white`)
	square, _ := scenes.Parse("a red square on white")
	for _, c := range []struct {
		name    string
		drawn   *vision.Image
		value   float64
		missing bool
	}{
		{"the word", picture(cat, scenes.Canonical), 1, false},
		{"another word", picture(car, scenes.Canonical), 2. / 3, false},
		{"nothing", vision.New(scenes.Size, scenes.Size), 0, false},
		{"no word", picture(square, scenes.Canonical), 0, true},
		{"another size", vision.New(32, 32), 0, true},
	} {
		s, err := OCR{SceneReader{}, OCRRule{Formula: "strict"}}.Score(t.Context(), Item{Prompt: cat.Prompt, Image: c.drawn})
		if (err != nil) != c.missing || err == nil && !close(s.Value, c.value) {
			t.Errorf("%s: %+v, %v", c.name, s, err)
		}
	}
}

func TestScenesMissing(t *testing.T) {
	good, _ := scenes.Parse("a red circle on white")
	for name, item := range map[string]Item{
		"no picture":    {Prompt: good.Prompt},
		"another size":  {Prompt: good.Prompt, Image: vision.New(65, 64)},
		"another world": {Prompt: "a dog on a bench", Image: picture(good, scenes.Canonical)},
	} {
		for _, r := range []Reward{SceneLayout{}, SceneTask{}} {
			if s, err := r.Score(t.Context(), item); err == nil {
				t.Errorf("%s: %+v", name, s)
			}
		}
	}
}

// The segmentation serves as GenEval's detector, too.
func TestGenEvalOnScenes(t *testing.T) {
	s, _ := scenes.Parse("a red circle left of a blue square on white")
	g := GenEval{Detector: SceneDetector{}, GenEvalRules: DefaultGenEval()}
	wish := `{"geneval": {"include": [{"class": "square", "count": 1, "color": "blue"}, {"class": "circle", "count": 1, "color": "red", "position": ["left of", 0]}]}}`
	got, err := g.Score(t.Context(), Item{Prompt: s.Prompt, Image: picture(s, scenes.Canonical), Meta: meta(t, wish)})
	if err != nil || got.Value != 1 || got.Parts["strict"] != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}
