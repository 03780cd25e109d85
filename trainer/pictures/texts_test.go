package pictures

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/golden"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// reading opens the recorded Stable Diffusion 3 on prompts, whose encoders are loaded whenever they are needed.
func reading(t *testing.T, o model.Options) *Model {
	t.Helper()
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(be.Close)
	e := parse(t, "model.path="+golden.Folder("models")+"/pipe_sd3", "model.lora={rank=2,alpha=4,targets=['to_q']}", "model.text_length=16",
		"sampler.width=32", "sampler.height=32", "sampler.steps=2", "sampler.window={size=1}", "loss.noise_floor=off")
	o.Backend = be
	for _, text := range []string{"a cat", "a dog", "a bird", "a fish", "a cow"} {
		o.Train = append(o.Train, prompts.Prompt{Text: text})
	}
	m, err := Open(e, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	m.Pipeline.Memory.KeepEncoders = false
	settings, err := e.Iteration(0)
	if err == nil {
		err = m.Begin(settings, rng.New(7), 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestTextsInOneGo: before anything is made of a roll or an evaluation, all its prompts and those that come next are
// encoded, and lie on the disk whole; a roll has the bits that it has without a disk.
func TestTextsInOneGo(t *testing.T) {
	keys := []trainer.Key{{Prompt: 2}, {Prompt: 2, Sample: 1}, {Prompt: 0}, {Prompt: 0, Sample: 1}, {Prompt: 1}}
	roll := func(m *Model, p trainer.Policy) (finals [][]float64) {
		t.Helper()
		samples, err := p.Roll(trainer.Current, keys)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range samples {
			finals = append(finals, s.Item.Final)
		}
		return finals
	}
	plain := reading(t, model.Options{})
	want := roll(plain, plain)
	cache := t.TempDir()
	m := reading(t, model.Options{Cache: cache, Ahead: func() []int { return []int{0, 3} }})
	m.prompts = 1
	knows := func(n int) bool { return m.Pipeline.Knows(pipeline.About{Prompt: m.asked.Train[n].Text}) }
	begun := false
	m.Progress = func(done, _ int) {
		if !begun && (!knows(0) || !knows(1) || !knows(3) || knows(4)) {
			t.Errorf("as the roll begins: prompts 0 to 4 are at hand: %v, %v, %v, %v, %v", knows(0), knows(1), knows(2), knows(3), knows(4))
		}
		begun = true
	}
	if got := roll(m, m); !slices.EqualFunc(got, want, slices.Equal) || !begun {
		t.Error("other bits from the disk")
	}
	if all, err := filepath.Glob(filepath.Join(cache, "*")); err != nil || len(all) != 5 { // with the empty one
		t.Errorf("%d files on the disk of 5 texts (%v)", len(all), err)
	}
	evaluated := reading(t, model.Options{Cache: t.TempDir()})
	settings, err := evaluated.settings.Evaluating(evaluated.settings.Sampler)
	if err != nil {
		t.Fatal(err)
	}
	evaluated.prompts = 1
	p := evaluated.Fixed(t.Context(), settings, rng.New(3)).(*Policy)
	first := true
	p.Progress = func(int, int) {
		for n := range 3 {
			if first && !evaluated.Pipeline.Knows(pipeline.About{Prompt: evaluated.asked.Train[n].Text}) {
				t.Errorf("as an evaluation begins, prompt %d is not at hand", n)
			}
		}
		first = false
	}
	if roll(evaluated, p); first {
		t.Error("nothing was told")
	}
}

// TestTextsWithoutRoom: where the folder of texts cannot be written, a roll has the same bits.
func TestTextsWithoutRoom(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	keys := []trainer.Key{{Prompt: 2}, {Prompt: 0}}
	var finals [][]float64
	for _, cache := range []string{"", filepath.Join(file, "below")} {
		m := reading(t, model.Options{Cache: cache})
		samples, err := m.Roll(trainer.Current, keys)
		if err != nil {
			t.Fatal(err)
		}
		finals = append(finals, samples[0].Item.Final)
	}
	if !slices.Equal(finals[0], finals[1]) {
		t.Error("other bits where texts cannot be kept")
	}
}

// TestTextNoise: a roll's texts have noise of the strength that the iteration has, each sample its own and the same one
// again, and none in padding; an evaluation's texts have none.
func TestTextNoise(t *testing.T) {
	m := reading(t, model.Options{})
	var keys []trainer.Key
	for i := range 8 {
		keys = append(keys, trainer.Key{Prompt: 1, Sample: i})
	}
	e := *m.settings.Experiment
	e.Run.Iterations, e.Rollout.TextNoise = 4, &experiment.TextNoise{Strength: 0.2, Schedule: "linear"}
	settings := m.settings
	settings.Experiment = &e
	clean, _, err := m.Texts([]int{1})
	if err != nil {
		t.Fatal(err)
	}
	padded := *clean[0]
	padded.States = slices.Clone(padded.States)
	clear(padded.States[len(padded.States)/2:])
	texts := func(p *Policy) (all []*pipeline.Text) {
		p.Texts = func(prompts []int) (texts, negatives []*pipeline.Text, err error) {
			return slices.Repeat([]*pipeline.Text{&padded}, len(prompts)), make([]*pipeline.Text, len(prompts)), nil
		}
		list, err := p.canvases(keys)
		if err != nil {
			t.Fatal(err)
		}
		for _, pic := range list {
			all = append(all, pic.Text)
		}
		return all
	}
	strength := func(of, clean []float32) float64 {
		noise, squares := 0.0, 0.0
		for i, v := range clean {
			d := float64(of[i]) - float64(v)
			if v == 0 && d != 0 {
				t.Fatal("padding has noise")
			}
			noise, squares = noise+float64(d*d), squares+float64(float64(v)*float64(v))
		}
		return math.Sqrt(noise / squares)
	}
	for iteration, want := range []float64{0.2, 0.15, 0.1, 0.05} {
		settings.Iteration = iteration
		if err := m.Begin(settings, rng.New(7), 1); err != nil {
			t.Fatal(err)
		}
		all := texts(m.Policy)
		for i, text := range all {
			if by := strength(text.States, padded.States); math.Abs(by-want) > 0.1*want {
				t.Errorf("iteration %d: states have noise of %.3f of them, not %v", iteration, by, want)
			}
			if by := strength(text.Pooled, padded.Pooled); math.Abs(by-want) > 0.3*want {
				t.Errorf("iteration %d: the pooled text has noise of %.3f of it, not %v", iteration, by, want)
			}
			if slices.Equal(text.States, all[(i+1)%len(all)].States) {
				t.Error("two samples of a prompt have one noise")
			}
		}
		for i, text := range texts(m.Policy) {
			if !slices.Equal(text.States, all[i].States) {
				t.Error("a sample that is rolled again has another noise")
			}
		}
	}
	passes, err := m.passes([]trainer.Point{{Key: keys[0], State: make([]float64, m.At.Len()), Time: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if passes[0].points[0].Text != &padded {
		t.Error("learned is a text with noise")
	}
	if fixed := texts(m.Fixed(t.Context(), settings, rng.New(1)).(*Policy)); fixed[0] != &padded {
		t.Error("an evaluation's texts have noise")
	}
}
