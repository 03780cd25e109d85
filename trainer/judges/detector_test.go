package judges

import (
	"encoding/json"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/features"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// TestEmbeddedDetector: by the program's own detector layout and geneval prefer a scene's picture to another's, and
// geneval reads its pictures at their own size.
func TestEmbeddedDetector(t *testing.T) {
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	d := features.On(tensor.NewPool(be), features.F32)
	prompts := []string{"a red circle left of a blue square on white", "three green triangles on black", `the word "CAT" in red on white`, "a yellow square above a purple triangle on gray"}
	metas := []string{
		`{"geneval": {"tag": "position", "include": [{"class": "square", "count": 1, "color": "blue"}, {"class": "circle", "count": 1, "color": "red", "position": ["left of", 0]}]}}`,
		`{"geneval": {"tag": "counting", "include": [{"class": "triangle", "count": 3, "color": "green"}]}}`,
		`{"geneval": {"tag": "counting", "include": [{"class": "letter", "count": 3, "color": "red"}]}}`,
		`{"geneval": {"tag": "position", "include": [{"class": "triangle", "count": 1, "color": "purple"}, {"class": "square", "count": 1, "color": "yellow", "position": ["above", 0]}]}}`,
	}
	item := func(prompt, shown int) rewards.Item {
		s, err := scenes.Parse(prompts[shown])
		if err != nil {
			t.Fatal(err)
		}
		i := rewards.Item{Prompt: prompts[prompt], Image: &vision.Image{Width: scenes.Size, Height: scenes.Size, Pix: s.Draw(nil)}}
		if err := json.Unmarshal([]byte(metas[prompt]), &i.Meta); err != nil {
			t.Fatal(err)
		}
		return i
	}
	for name, n := range map[string]network{
		"layout":  {"layout", "embed:tiny-mask2former", []string{"detector.least=0.5", "detector.overlap=0.5"}},
		"geneval": {"geneval", "embed:tiny-mask2former", []string{"geneval.threshold=0.5", "geneval.counting_threshold=0.5", "geneval.max_overlap=0.5"}},
	} {
		o, err := n.open(d)
		if err != nil {
			t.Fatal(err)
		}
		for i := range prompts {
			right := o.Judge(t.Context(), []rewards.Item{item(i, i)})[0]
			wrong := o.Judge(t.Context(), []rewards.Item{item(i, (i+1)%len(prompts))})[0]
			if right.Missing != nil || wrong.Missing != nil || right.Value < 0.65 || wrong.Value > 0.45 {
				t.Errorf("%s, %s: %.2f with reasons %v (%v), and %.2f for another picture (%v)", name, prompts[i], right.Value, right.Evidence, right.Missing, wrong.Value, wrong.Missing)
			}
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}
}
