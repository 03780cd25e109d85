package pictures

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/golden"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/model"
	"github.com/darkroom-rl/darkroom/vision"
)

// animator is a Wan 2.2 TI2V, the recorded T2V with a time for each frame of latents, under an experiment: the first
// prompt's clips begin with a picture, the second's do not.
func animator(t *testing.T, sets ...string) *Model {
	t.Helper()
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.CopyFS(dir, os.DirFS(filepath.Join(golden.Folder("models"), "pipe_wan22_t2v"))))
	index := filepath.Join(dir, "model_index.json")
	text, err := os.ReadFile(index)
	must(err)
	said := map[string]any{}
	must(json.Unmarshal(text, &said))
	delete(said, "boundary_ratio")
	delete(said, "transformer_2")
	said["expand_timesteps"] = true
	text, err = json.Marshal(said)
	must(err)
	must(os.WriteFile(index, text, 0o644))
	must(os.RemoveAll(filepath.Join(dir, "transformer_2")))
	m := vision.New(32, 32)
	for i := range m.Pix {
		m.Pix[i] = uint8(5 * i % 251)
	}
	out, err := os.Create(filepath.Join(dir, "first.png"))
	must(err)
	must(vision.EncodePNG(out, m))
	must(out.Close())
	list := filepath.Join(dir, "prompts.jsonl")
	must(os.WriteFile(list, []byte(`{"prompt": "a cat runs", "image": "first.png"}`+"\n"+`{"prompt": "a dog runs"}`+"\n"), 0o644))
	all, err := prompts.Open(list)
	must(err)
	be, err := cpu.New()
	must(err)
	t.Cleanup(be.Close)
	e := parse(t, slices.Concat([]string{"model.path=" + dir, "model.precision=f32", "model.lora={ rank = 2, alpha = 4, targets = ['to_q'] }", "rollout.prompts=" + list, "rollout.group=2", "sampler.frames=5", "sampler.width=32",
		"sampler.height=32", "sampler.guidance=1", "reward=[{name='jpeg', frames='mean'}]"}, sets)...)
	opened, err := Open(e, model.Options{Backend: be, Train: all})
	must(err)
	t.Cleanup(func() { opened.Close() })
	settings, err := e.Iteration(0)
	must(err)
	must(opened.Begin(settings, rng.New(7), 1))
	return opened
}

// watched is a policy whose questions and gradients are looked at.
type watched struct {
	trainer.Policy
	points []trainer.Point
	grads  [][]float64
}

func (w *watched) Eval(of trainer.Weights, at []trainer.Point) (trainer.Forward, error) {
	a, err := w.Policy.Eval(of, at)
	if back := a.Back; back != nil {
		w.points = slices.Clone(at)
		a.Back = func(grads [][]float64) error {
			w.grads = nil
			for _, g := range grads {
				w.grads = append(w.grads, slices.Clone(g))
			}
			return back(grads)
		}
	}
	return a, err
}

// TestGivenIsNotNoised: the given first frame of a clip is not noised by objectives that noise finished samples: the
// network is asked with it as it is, and no gradient is there, nor a loss; without Settle there is one.
func TestGivenIsNotNoised(t *testing.T) {
	for _, objective := range []string{"nft", "awm", "rwr", "dpo", "dgpo", "crd"} {
		m := animator(t, "loss.objective="+objective, "advantage.estimator="+map[bool]string{true: "ends", false: "group"}[objective == "dpo"], "sampler.solver=euler", "rollout.shared_noise=false", "sampler.window={ kind = 'full' }")
		keys := pairs()[:4]
		samples, err := m.Roll(trainer.Current, keys)
		if err != nil {
			t.Fatal(err)
		}
		given, err := m.Policy.sources(keys)
		if err != nil {
			t.Fatal(err)
		}
		of, err := m.Objective(m.settings, m)
		if err != nil {
			t.Fatal(err)
		}
		o := of.(trainer.ForwardProcess)
		blame := func() (there, elsewhere float64, moved bool) {
			t.Helper()
			w := &watched{Policy: m}
			if _, err := o.Evaluate(w, samples, []float64{1, -1, 1, -1}); err != nil {
				t.Fatal(err)
			}
			for i, p := range w.points {
				clean := samples[i%len(samples)].Item.Final
				n := len(clean) - kept(given[i%len(samples)].Still(ones(len(clean))))
				moved = moved || !slices.Equal(p.State[:n], clean[:n])
				there, elsewhere = max(there, largest(w.grads[i][:n])), max(elsewhere, largest(w.grads[i][n:]))
			}
			m.Params().Move(0, 0) // forgets the gradient, and moves nothing
			return there, elsewhere, moved
		}
		if there, elsewhere, moved := blame(); there != 0 || elsewhere == 0 || moved {
			t.Errorf("%s: gradients of %g there and %g elsewhere; noised %v", objective, there, elsewhere, moved)
		}
		o.Settle = nil
		if there, _, moved := blame(); there == 0 || !moved {
			t.Errorf("%s: with noise there, gradients of %g; noised %v", objective, there, moved)
		}
	}
}

// TestGivenIsDeveloped: whatever a way made of latents that are given, they are decoded as they are, and have no
// gradient.
func TestGivenIsDeveloped(t *testing.T) {
	m := animator(t)
	keys := pairs()[:1]
	samples, err := m.Roll(trainer.Current, keys)
	if err != nil {
		t.Fatal(err)
	}
	given, err := m.Policy.sources(keys)
	if err != nil {
		t.Fatal(err)
	}
	develop := func(final []float64) (pixels []float32, grads []float64) {
		t.Helper()
		all, err := m.Develop(keys, [][]float64{final}, func(_ int, of []vision.Pixels) ([][]float32, error) {
			pixels = slices.Clone(of[0].RGB)
			return [][]float32{slices.Repeat([]float32{1}, len(pixels))}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return pixels, all[0]
	}
	final := samples[0].Item.Final
	want, grads := develop(final)
	n := len(final) - kept(given[0].Still(ones(len(final))))
	if n == 0 || largest(grads[:n]) != 0 || largest(grads[n:]) == 0 {
		t.Errorf("%d latents are given; gradients of %g there and %g elsewhere", n, largest(grads[:n]), largest(grads[n:]))
	}
	other := slices.Clone(final)
	for i := range n {
		other[i] += 3
	}
	if got, _ := develop(other); !slices.Equal(got, want) {
		t.Error("other latents in the place of those that are given were decoded")
	}
}

func ones(n int) []float64 { return slices.Repeat([]float64{1}, n) }

// kept is how many numbers are not 0.
func kept(x []float64) (n int) {
	for _, v := range x {
		if v != 0 {
			n++
		}
	}
	return n
}

// largest is the length of the longest number.
func largest(x []float64) (most float64) {
	for _, v := range x {
		most = max(most, v, -v)
	}
	return most
}
