package pictures

import (
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer"
)

// TestOwnPicturesAreJudged: rewards see the files' own pictures of training data, and nothing is decoded.
func TestOwnPicturesAreJudged(t *testing.T) {
	sets := []string{"rollout.offline=true", "rollout.prompts=embed:scene-pairs", "rollout.group=2", "loss.objective=dpo", "advantage.estimator=ends", "sampler.width=64", "sampler.height=64"}
	list, err := readPrompts(parse(t, sets...))
	if err != nil {
		t.Fatal(err)
	}
	m := opened(t, list, sets...)
	samples, err := m.Roll(trainer.Current, []trainer.Key{{Prompt: 3}, {Prompt: 3, Sample: 1}})
	if err != nil {
		t.Fatal(err)
	}
	items, err := m.Items(samples)
	if err != nil {
		t.Fatal(err)
	}
	for i, item := range items {
		own, err := m.album[3].Picture(i, 64, 64)
		if err != nil {
			t.Fatal(err)
		}
		if len(samples[i].Item.Final) == 0 || !slices.Equal(item.Image.Pix, own.Pix) {
			t.Errorf("picture %d is judged as another than the file's", i)
		}
	}
}
