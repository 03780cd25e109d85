package rewards

import (
	"math"
	"slices"
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
			own, err := reward.Score(t.Context(), Item{Prompt: a.Prompt, Image: picture(a, nil)})
			if err != nil || own.Value < 0.85 {
				t.Errorf("%s: %q drawn as asked for is %v, %v", name, a.Prompt, own.Value, err)
			}
			other, err := reward.Score(t.Context(), Item{Prompt: a.Prompt, Image: picture(b, nil)})
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
		{"the word", picture(cat, nil), 1, false},
		{"another word", picture(car, nil), 2. / 3, false},
		{"nothing", vision.New(scenes.Size, scenes.Size), 0, false},
		{"no word", picture(square, nil), 0, true},
		{"another size", vision.New(32, 32), 0, true},
	} {
		s, err := OCR{SceneReader{}, OCRRule{Formula: "strict"}}.Score(t.Context(), Item{Prompt: cat.Prompt, Image: c.drawn})
		if (err != nil) != c.missing || err == nil && !near(s.Value, c.value) {
			t.Errorf("%s: %+v, %v", c.name, s, err)
		}
	}
}

func TestScenesMissing(t *testing.T) {
	good, _ := scenes.Parse("a red circle on white")
	for name, item := range map[string]Item{
		"no picture":    {Prompt: good.Prompt},
		"another size":  {Prompt: good.Prompt, Image: vision.New(65, 64)},
		"another world": {Prompt: "a dog on a bench", Image: picture(good, nil)},
	} {
		for _, r := range []Reward{SceneLayout{}, SceneTask{}, SceneGround{}, SceneShade{}} {
			if s, err := r.Score(t.Context(), item); err == nil {
				t.Errorf("%s: %+v", name, s)
			}
		}
	}
}

// TestShadeSeesDrift: backgrounds that are blended towards gray step by step, objects untouched,
// are worth less with every step by SceneShade, from all to nothing. Layout does not move; the whole
// task, which looks at the border and at crispness a little, moves by less than a fifth; the share of
// the background stays where it was for half of the way.
func TestShadeSeesDrift(t *testing.T) {
	const steps = 15 // none of them half-way from black, where the palette's nearest colour is green
	var drawn []scenes.Scene
	var pictures [][]uint8
	r := rng.New(5).With("drift").Draw()
	for len(drawn) < 12 {
		if s := scenes.Random(r, scenes.Everything); s.Background != "gray" {
			drawn, pictures = append(drawn, s), append(pictures, s.Draw(scenes.Jitter(r)))
		}
	}
	mean := func(judge Reward, step int) (sum float64) {
		for i, s := range drawn {
			m := &vision.Image{Width: scenes.Size, Height: scenes.Size, Pix: towardsGray(pictures[i], float64(step)/steps)}
			got, err := judge.Score(t.Context(), Item{Prompt: s.Prompt, Image: m})
			if err != nil {
				t.Fatal(err)
			}
			sum += got.Value / float64(len(drawn))
		}
		return sum
	}
	at := func(judge Reward) (all []float64) {
		for step := range steps + 1 {
			all = append(all, mean(judge, step))
		}
		return all
	}
	shade, ground, layout, task := at(SceneShade{}), at(SceneGround{}), at(SceneLayout{}), at(SceneTask{})
	for i := 1; i <= steps; i++ {
		if !(shade[i] < shade[i-1]-0.5/steps) {
			t.Errorf("step %d: the shade went from %.4f to %.4f", i, shade[i-1], shade[i])
		}
	}
	if shade[0] < 0.97 || shade[steps] > 0.02 || shade[3] > 0.81 || ground[6] < ground[0]-0.02 {
		t.Errorf("shade %.3f, share %.3f", shade, ground)
	}
	if span := slices.Max(layout) - slices.Min(layout); span > 0.02 {
		t.Errorf("layout moved by %.3f: %.3f", span, layout)
	}
	if span := slices.Max(task) - slices.Min(task); span > 0.2 {
		t.Errorf("the task moved by %.3f: %.3f", span, task)
	}
}

// towardsGray is a picture whose background's pixels went a share of the way to gray.
func towardsGray(px []uint8, share float64) []uint8 {
	out := slices.Clone(px)
	for i := 0; i < len(px); i += 3 {
		if r, g, b := int(px[i]), int(px[i+1]), int(px[i+2]); max(r, g, b)-min(r, g, b) < 12 { // no colour
			for j := range 3 {
				out[i+j] = uint8(math.Round(float64(px[i+j]) + float64(share*(140-float64(px[i+j])))))
			}
		}
	}
	return out
}
