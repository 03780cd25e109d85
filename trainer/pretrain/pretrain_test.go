package pretrain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/vision/scenes"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
)

// small is a recipe of seconds.
const small = `
name = "small"
data.scenes = 64
vae = { steps = 3, batch = 2, channels = [8, 8, 8], latent = 4 }
decoder = { steps = 2, batch = 2 }
model = { text_width = 32, text_layers = 2, layers = 2, heads = 1, zero = ['proj_out\..*'] }
flow = { steps = 6, batch = 4, micro = 2, save_every = 2 }
then = [{ steps = 3, word = 0.9, plain = 0.5 }]
judge = { prompts = 2, steps = 2, every = 100 }
`

func smallRecipe(t *testing.T, sets ...string) *Pipeline {
	t.Helper()
	r, err := Parse("small.toml", []byte(small), sets)
	if err != nil {
		t.Fatal(err)
	}
	p := r.(*Pipeline)
	p.Data.Scenes = 8 // fewer than a file may ask for: every run encodes all of them
	return p
}

func backend(t *testing.T) kernels.Backend {
	t.Helper()
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(be.Close)
	return be
}

// patience is a context that is cancelled when it has been asked so often.
type patience struct {
	context.Context
	left int
}

func (p *patience) Err() error {
	if p.left--; p.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestStoppedAndGoneOn: a run that is stopped time and again makes the bytes of one that never
// was, with another size of passes, and its folder is a pipeline.
func TestStoppedAndGoneOn(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds, and minutes without assembly; left out by -short")
	}
	be := backend(t)
	whole, parts := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "parts")
	say := func(string) {}
	if err := Run(smallRecipe(t), whole, Hooks{Backend: be, Log: say}); err != nil {
		t.Fatal(err)
	}
	r := smallRecipe(t, "flow.micro=4")
	stops := 0
	for left := 2; ; left++ {
		err := Run(r, parts, Hooks{Backend: be, Log: say, Context: &patience{context.Background(), left}})
		if err == nil {
			break
		}
		if stops++; !errors.Is(err, context.Canceled) || stops > 40 {
			t.Fatal(err)
		}
	}
	if stops < 3 {
		t.Errorf("the run was stopped %d times only", stops)
	}
	for _, name := range []string{"vae/diffusion_pytorch_model.safetensors", "transformer/diffusion_pytorch_model.safetensors", "text_encoder/model.safetensors",
		"text_encoder_2/model.safetensors", "vae/config.json", "samples_g1.png"} {
		a, err := os.ReadFile(filepath.Join(whole, name))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(parts, name)); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: other bytes after %d stops (%v)", name, stops, err)
		}
	}
	p, err := pipeline.Open(whole, pipeline.Options{Pool: tensor.NewPool(be)})
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	if err := Run(smallRecipe(t, "seed=2"), whole, Hooks{Backend: be, Log: say}); err == nil || !strings.Contains(err.Error(), "another recipe") {
		t.Errorf("another recipe in the same folder: %v", err)
	}
}

// TestLearns: a few dozen updates lower both losses.
func TestLearns(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds; left out by -short")
	}
	r := smallRecipe(t, "vae.steps=75", "vae.batch=1", "vae.lr=0.008", "vae.warmup=5", "flow.steps=60", "flow.lr=0.003", "flow.batch=2", "flow.micro=2")
	r.Data.Scenes = 4 // over and over, so that one batch is as hard as another
	w := &run{Pipeline: *r, Hooks: Hooks{Backend: backend(t), Log: func(string) {}}, dir: filepath.Join(t.TempDir(), "m"), data: r.dataset()}
	w.pool = tensor.NewPool(w.Backend)
	var said []string
	w.Log = func(line string) { said = append(said, line) }
	for _, f := range []func() error{func() error { return w.writeFrame(w.dir) }, w.autoencoder, w.cacheLatents} {
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
	n, mean, squares := float64(len(w.latents)), 0.0, 0.0
	for _, z := range w.latents {
		mean, squares = mean+float64(z)/n, squares+float64(z)*float64(z)/n
	}
	if math.Abs(mean) > 0.05 || math.Abs(squares-1) > 0.05 {
		t.Errorf("latents have mean %.3f and mean square %.3f, not 0 and 1", mean, squares)
	}
	g, err := w.maker().painter(r, true)
	if err != nil {
		t.Fatal(err)
	}
	defer g.free()
	s := r.Flow.Stage.begin("flow", w.pool, w.Log, g.groups(r.Flow.Muon)...)
	seen := order{key: rng.New(9), n: r.Data.Scenes}
	var first, last float64
	for step := 1; step <= r.Flow.Steps; step++ {
		l := w.flowPass(g, &s, r.Flow, &seen, step)
		if _, err := s.mover.Step(r.Flow.rateAt(step)); err != nil {
			t.Fatal(err)
		}
		if step <= 10 {
			first += l / 10
		}
		if step > r.Flow.Steps-10 {
			last += l / 10
		}
	}
	if last > 0.8*first {
		t.Errorf("the loss of flow went from %.3f to %.3f", first, last)
	}
	var start, end float64
	if len(said) < 3 {
		t.Fatalf("the autoencoder said %q", said)
	}
	scan(t, said[0], &start)
	scan(t, said[len(said)-1], &end)
	if end > 0.88*start {
		t.Errorf("the autoencoder's l1 went from %.3f to %.3f", start, end)
	}
}

func scan(t *testing.T, line string, l1 *float64) {
	t.Helper()
	for i, f := range strings.Fields(line) {
		if f == "l1" {
			if _, err := fmt.Sscan(strings.Fields(line)[i+1], l1); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("%q says no l1", line)
}

// TestTokenizer: words of captions are one token, words to be drawn are letters.
func TestTokenizer(t *testing.T) {
	dir := t.TempDir()
	if err := writeTokenizer(dir, 16, captionWords()); err != nil {
		t.Fatal(err)
	}
	k, err := tokenizer.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for text, n := range map[string]int{"a red circle left of a blue square on white": 10, "three purple triangles on gray": 5, `the word "CAT" in red on white`: 11} {
		if got, err := k.Encode(text); err != nil || len(got.IDs) != n {
			t.Errorf("%q is %q: %d tokens, not %d", text, got.Tokens, len(got.IDs), n)
		}
	}
	longest := 0
	for i := range 500 {
		s := scenes.Random(rng.New(5).Sample(i).Draw(), scenes.Everything)
		ids, err := k.Framed(s.Prompt)
		if err != nil {
			t.Fatal(err)
		}
		longest = max(longest, len(ids))
	}
	if longest > 16 {
		t.Errorf("captions take up to %d tokens: 16 are there", longest)
	}
}

// TestData: captions that are kept for evaluation are not seen, and an eighth's captions differ by epoch in nothing
// but omissions.
func TestData(t *testing.T) {
	d := smallRecipe(t).dataset()
	wrong, empty := 0, 0
	for i := range 400 {
		s := d.scene(i)
		if scenes.HeldOut(s.Prompt) {
			t.Fatalf("%q is kept for evaluation, and seen", s.Prompt)
		}
		if h := d.heldOut(i); !scenes.HeldOut(h.Prompt) {
			t.Fatalf("%q is not kept for evaluation", h.Prompt)
		}
		var said string
		for epoch := range 5 {
			switch c := d.caption(i, epoch); {
			case c == "":
				empty++
			case said == "":
				said = c
			case said != c:
				t.Fatalf("picture %d is %q, and then %q", i, said, c)
			}
		}
		if said != "" && said != s.Prompt {
			wrong++
		}
	}
	if share := float64(wrong) / 400; math.Abs(share-d.Noise) > 0.08 {
		t.Errorf("%.2f of the captions are wrong, not %.2f", share, d.Noise)
	}
	plain := 0
	short := d.during(0, Phase{Word: 0.5, Plain: 0.4})
	for i := range 400 {
		if c := short.caption(i, 0); c != "" && !strings.Contains(c, " on ") {
			plain++
		}
	}
	if share := float64(plain) / 400; math.Abs(share-0.4*(1-d.Drop)) > 0.08 {
		t.Errorf("%.2f of the captions do not say their background", share)
	}
	if share := float64(empty) / 2000; math.Abs(share-d.Drop) > 0.03 {
		t.Errorf("%.2f of the captions are left out, not %.2f", share, d.Drop)
	}
}

// TestGradientsOfStages: reconstruction and divergence against differences.
func TestGradientsOfStages(t *testing.T) {
	x, y := []float32{0.5, -1, 0.25}, []float32{0.2, 0.3, -0.6}
	value := func(y []float32) float64 {
		l := 0.0
		for i := range y {
			d := float64(y[i]) - float64(x[i])
			l += (math.Abs(d) + d*d) / 3
		}
		return l
	}
	_, dy := reconstruction(y, x)
	mu, logVar := []float32{0.3, -1}, []float32{-0.5, 0.7}
	_, dMu, dLogVar := normalKL(mu, logVar, 2)
	const h = 1e-3
	differ := func(at *float32, f func() float64) float64 {
		was := *at
		*at = was + h
		up := f()
		*at = was - h
		down := f()
		*at = was
		return (up - down) / (2 * h)
	}
	for i := range y {
		if got := differ(&y[i], func() float64 { return value(y) }); math.Abs(got-float64(dy[i])) > 1e-4 {
			t.Errorf("reconstruction: dy[%d] is %v, by differences %v", i, dy[i], got)
		}
	}
	kl := func() float64 { v, _, _ := normalKL(mu, logVar, 2); return 2 * v }
	for i := range mu {
		if got := differ(&mu[i], kl); math.Abs(got-float64(dMu[i])) > 1e-4 {
			t.Errorf("kl: dμ[%d] is %v, by differences %v", i, dMu[i], got)
		}
		if got := differ(&logVar[i], kl); math.Abs(got-float64(dLogVar[i])) > 1e-4 {
			t.Errorf("kl: dlogvar[%d] is %v, by differences %v", i, dLogVar[i], got)
		}
	}
}

// TestRecipeMistakes: mistakes are reported all at once, with their places.
func TestRecipeMistakes(t *testing.T) {
	_, err := Parse("bad.toml", []byte("name = \"x\"\n[vae]\nchannels = [12]\n[flow]\nbacth = 3\ntail = 2\n"), nil)
	for _, want := range []string{"12 is not a multiple of 8", "bacth", "tail", "bad.toml:3"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	for _, file := range []string{"../../assets/tiny-sd3.toml"} {
		if _, err := Read(file, nil); err != nil {
			t.Error(err)
		}
	}
}
