package pretrain

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
	"github.com/darkroom-rl/darkroom/vision/tokenizer"
)

// smallMover is a recipe of seconds.
const smallMover = `
makes = "motion"
name = "small"
data.clips = 16
vae = { steps = 2, batch = 2, patch = 2, base = 4, times = [1, 1], halves = [true], latent = 4, motion = 4 }
model = { text_width = 32, text_layers = 1, layers = 1, heads = 2, frames = 3 }
flow = { steps = 3, batch = 2, micro = 1, save_every = 1 }
then = [{ steps = 2, caption_noise = 1 }]
judge = { prompts = 1, steps = 2, every = 100 }
`

// TestMover: a model of clips comes out of its recipe, as a pipeline that draws them; stopped and gone on with, and in
// larger passes, it is the same.
func TestMover(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds, and minutes without assembly; left out by -short")
	}
	be, measured := backend(t), 0
	make := func(dir string, h Hooks, sets ...string) error {
		r, err := Parse("small.toml", []byte(smallMover), sets)
		if err != nil {
			t.Fatal(err)
		}
		h.Backend, h.Log = be, func(line string) {
			if strings.HasPrefix(line, "reconstructed:") {
				measured++
			}
		}
		return Run(r, dir, h)
	}
	whole, parts := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "parts")
	for range 2 { // the second finds everything done
		if err := make(whole, Hooks{}); err != nil || measured != 1 {
			t.Fatalf("%v; measured %d times", err, measured)
		}
	}
	for _, asked := range []int{1, 5} { // in the autoencoder's second update, and behind it
		if err := make(parts, Hooks{Context: &patience{context.Background(), asked}}); err == nil {
			t.Fatal("nothing stopped it")
		}
	}
	if _, err := os.Stat(filepath.Join(parts, "vae.state.safetensors")); err != nil {
		t.Error(err)
	}
	if err := make(parts, Hooks{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"transformer", "vae"} {
		file := filepath.Join(name, "diffusion_pytorch_model.safetensors")
		a, err := os.ReadFile(filepath.Join(whole, file))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(parts, file)); err != nil || string(a) != string(b) {
			t.Errorf("%s differs after a stop (%v)", file, err)
		}
	}
	p, err := pipeline.Open(whole, pipeline.Options{Pool: tensor.NewPool(be)})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	texts, err := p.Encode("a red circle moves left fast on white", "")
	if err != nil || texts[0].Tokens != 12 || !p.Clips() {
		t.Fatalf("%+v, %v", texts, err)
	}
	if c, err := video.Open(filepath.Join(whole, "samples_g3.png"), video.Limits{}); err != nil || len(c.Frames) != moving.Small.Frames {
		t.Errorf("the sheet does not play: %v", err)
	}
}

// linearMover are settings of a small recipe whose autoencoder is computed.
var linearMover = []string{`vae={linear=true, patch=8, base=6, times=[1], halves=[], latent=4}`, "data.clips=4", "model.frames=5", "model.patch=1", "flow.steps=1", "flow.warmup=1", "judge.guidance=1"}

// weightAfter is a weight of the text encoder that a small recipe makes.
func weightAfter(t *testing.T, dir, name string, sets ...string) []float32 {
	t.Helper()
	r, err := Parse("small.toml", []byte(smallMover), append(slices.Clone(linearMover), sets...))
	if err != nil {
		t.Fatal(err)
	}
	if err := Run(r, dir, Hooks{Backend: backend(t), Log: func(string) {}}); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(filepath.Join(dir, "text_encoder", "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := f.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	x, err := w.Float32(nil)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestKeep: after a phase that keeps a quarter of the weights before it, they lie between the two, once, and
// the copy of those before it is gone.
func TestKeep(t *testing.T) {
	const name = "encoder.block.0.layer.0.SelfAttention.q.weight"
	phase := "then=[{steps=2, lr=0.05%s}]"
	dir := t.TempDir()
	first := t.TempDir()
	before, after := weightAfter(t, first, name, "then=[]"), weightAfter(t, t.TempDir(), name, fmt.Sprintf(phase, ""))
	kept := weightAfter(t, dir, name, fmt.Sprintf(phase, ", keep=0.25"))
	moved := 0.0
	for i, v := range kept {
		want := 0.25*float64(before[i]) + 0.75*float64(after[i])
		if math.Abs(float64(v)-want) > 0.01*math.Abs(want)+1e-6 {
			t.Fatalf("number %d is %g, between %g and %g", i, v, before[i], after[i])
		}
		moved = max(moved, math.Abs(float64(before[i])-float64(after[i])))
	}
	if moved < 0.01 {
		t.Errorf("the phase moved weights by %g", moved)
	}
	start := filepath.Join(dir, "then[0].start")
	gone := func() {
		t.Helper()
		if _, err := os.Stat(start); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", start, err)
		}
	}
	gone()
	if err := os.Remove(filepath.Join(dir, "then[0].keep.done")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(start, os.DirFS(first)); err != nil {
		t.Fatal(err)
	}
	if again := weightAfter(t, dir, name, fmt.Sprintf(phase, ", keep=0.25")); !slices.Equal(again, kept) {
		t.Error("a stage that was stopped before its mark is done twice")
	}
	gone()
	if err := os.Mkdir(start, 0o755); err != nil {
		t.Fatal(err)
	}
	weightAfter(t, dir, name, fmt.Sprintf(phase, ", keep=0.25"))
	gone() // after a stop between the mark and the end
}

// TestGoneOn: a copy of a finished folder under a recipe with one more phase ends where that recipe does by itself, as
// make models has it.
func TestGoneOn(t *testing.T) {
	const name, phase = "encoder.block.0.layer.0.SelfAttention.q.weight", "then=[{steps=2, lr=0.05}]"
	whole, first, more := t.TempDir(), t.TempDir(), t.TempDir()
	want, before := weightAfter(t, whole, name, phase), weightAfter(t, first, name, "then=[]")
	if err := os.CopyFS(more, os.DirFS(first)); err != nil {
		t.Fatal(err)
	}
	recipe, err := os.ReadFile(filepath.Join(whole, recipeFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(more, recipeFile), recipe, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := weightAfter(t, more, name, phase); !slices.Equal(got, want) || slices.Equal(got, before) {
		t.Error("the phase after a copy is another one")
	}
}

// TestRewritten: a file without metadata is changed once, and remembers it.
func TestRewritten(t *testing.T) {
	dir, p := t.TempDir(), part{folder: ".", base: "model"}
	path := filepath.Join(dir, "model.safetensors")
	if err := safetensors.Write(path, []safetensors.Tensor{safetensors.FromF32("w", []int{1}, []float32{1})}, nil); err != nil {
		t.Fatal(err)
	}
	changes := 0
	for range 2 {
		if err := p.rewrite(dir, "contrast", 0.5, func(w safetensors.Tensor) (safetensors.Tensor, error) { changes++; return w, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if changes != 1 {
		t.Errorf("%d changes", changes)
	}
}

// TestContrast: the finished embeddings of headings, and of paces, lie nearer to their mean, once; others do not move.
func TestContrast(t *testing.T) {
	dir, width := t.TempDir(), 32
	before, after := weightAfter(t, t.TempDir(), "shared.weight", "then=[]"), weightAfter(t, dir, "shared.weight", "then=[]", "model.contrast=0.25")
	if err := os.Remove(filepath.Join(dir, "contrast.done")); err != nil {
		t.Fatal(err)
	}
	if again := weightAfter(t, dir, "shared.weight", "then=[]", "model.contrast=0.25"); !slices.Equal(again, after) {
		t.Error("a stage that was stopped before its mark is done twice")
	}
	words, err := tokenizer.Open(filepath.Join(dir, "tokenizer"))
	if err != nil {
		t.Fatal(err)
	}
	row := func(x []float32, word string) []float32 {
		id, _ := words.ID("▁" + word)
		return x[int(id)*width:][:width]
	}
	apart := func(x []float32, a, b string) (sum float64) {
		for k, v := range row(x, a) {
			sum += math.Abs(float64(v) - float64(row(x, b)[k]))
		}
		return sum
	}
	for _, pair := range [][2]string{{"left", "right"}, {"up", "left"}, {"slowly", "fast"}} {
		if by := apart(after, pair[0], pair[1]) / apart(before, pair[0], pair[1]); math.Abs(by-0.25) > 0.01 {
			t.Errorf("%v are %.3f as far apart, not 0.25", pair, by)
		}
	}
	for _, word := range []string{"red", "circle", "white", "moves"} {
		if !slices.Equal(row(before, word), row(after, word)) {
			t.Errorf("%q has moved", word)
		}
	}
}

// TestAnimator: a model whose clips begin with a picture comes out of its recipe as a pipeline that asks for one; the
// inputs beside latents in training are the pipeline's.
func TestAnimator(t *testing.T) {
	sets := []string{`vae={linear=true, patch=8, base=6, times=[1], halves=[], latent=4}`, "data.clips=16", "model.frames=5", "model.patch=1", "model.picture=true", "then=[]", "flow.steps=1", "judge.guidance=1"}
	r, err := Parse("small.toml", []byte(smallMover), sets)
	if err != nil {
		t.Fatal(err)
	}
	be, dir := backend(t), t.TempDir()
	h := Hooks{Backend: be, Log: func(string) {}}
	if err := Run(r, dir, h); err != nil {
		t.Fatal(err)
	}
	p, err := pipeline.Open(dir, pipeline.Options{Pool: tensor.NewPool(be)})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, must, _, _ := p.Gives(); !must {
		t.Error("the pipeline asks for no picture")
	}
	w := &wanRun{WanRecipe: *r.(*WanRecipe), Hooks: h, dir: dir, pool: tensor.NewPool(be), key: rng.New(r.(*WanRecipe).Seed)}
	at, err := p.ClipShape(w.clipShape()[0], w.Data.Size, w.Data.Size)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cacheLatents(); err != nil {
		t.Fatal(err)
	}
	const clip = 3
	film := w.film(w.scene(clip), moving.Small.Jitter(w.key.With("jitter").Sample(clip).Draw()))
	g, err := p.Give(t.Context(), at, &vision.Image{Width: film.Width, Height: film.Height, Pix: film.Frames[0]}, nil)
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]float32, at.Len())
	reads, _ := p.Reads(pipeline.Point{Latents: make([]float64, at.Len()), Given: g}, at)
	for i, v := range w.joined(zeros, clip) {
		if math.Abs(float64(v-reads[i])) > 0.02*max(1, math.Abs(float64(v))) {
			t.Fatalf("number %d is %g in training, and %g of the pipeline", i, v, reads[i])
		}
	}
}

// TestMoved: where a clip changes its numbers weigh more in the autoencoder's loss, and the mean weight is 1.
func TestMoved(t *testing.T) {
	r, err := Parse("small.toml", []byte(smallMover), nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &wanRun{WanRecipe: *r.(*WanRecipe)}
	x := make([]float32, 3*w.Data.Size*w.Data.Size*w.format().Frames)
	last := len(x) - 1
	x[last] = 1 // a number of the last frame
	weights, sum := w.moved(x), 0.0
	for _, v := range weights {
		sum += float64(v)
	}
	if d := weights[last]/weights[0] - 5; math.Abs(sum/float64(len(x))-1) > 1e-4 || d > 1e-4 || d < -1e-4 {
		t.Errorf("the mean is %g, and what moves weighs %g of the rest", sum/float64(len(x)), weights[last]/weights[0])
	}
	w.VAE.Motion = 0
	if w.moved(x) != nil {
		t.Error("weights without a weight of motion")
	}
}

// TestLinear: through the autoencoder that is computed, drawn clips show their captions' things and go where the
// captions say; its latents have mean 0 and deviation 1, and all of diffusers' files are there.
func TestLinear(t *testing.T) {
	sets := []string{`vae={linear=true, patch=4, base=14, times=[1], halves=[], latent=12}`, "judge.prompts=8", "data.clips=32", "model.frames=1"}
	r, err := Parse("small.toml", []byte(smallMover), sets)
	if err != nil {
		t.Fatal(err)
	}
	be, dir := backend(t), t.TempDir()
	w := &wanRun{WanRecipe: *r.(*WanRecipe), Hooks: Hooks{Backend: be, Log: func(string) {}}, dir: dir, pool: tensor.NewPool(be), key: rng.New(1)}
	if err := w.linear(); err != nil {
		t.Fatal(err)
	}
	m, err := w.reconstructed()
	if err != nil || m.Thing < 0.9 || m.Heading < 0.55 {
		t.Errorf("%+v, %v", m, err)
	}
	v, params, err := w.openVAE(false)
	if err != nil {
		t.Fatal(err)
	}
	defer params.Free()
	var sum, squares, n float64
	for _, z := range w.encoded(v, 0, 32) {
		sum, squares, n = sum+float64(z), squares+float64(z)*float64(z), n+1
	}
	if math.Abs(sum/n) > 0.02 || math.Abs(squares/n-1) > 0.05 {
		t.Errorf("latents have mean %g and square %g", sum/n, squares/n)
	}
}

// TestDivisors: made wholly alike, every channel is seen with a deviation of 1; not at all, each keeps its length
// beside the others, and half way its root; the mean square is 1 always.
func TestDivisors(t *testing.T) {
	lengths := []float64{9, 4, 0.25}
	for whiten, powers := range map[float64][]float64{1: {1, 1, 1}, 0.5: {3, 2, 0.5}, 0: lengths} {
		square, first := 0.0, lengths[0]/float64(divisors(lengths, whiten)[0])
		for i, by := range divisors(lengths, whiten) {
			seen := lengths[i] / float64(by)
			square += seen * seen / 3
			if got, want := seen/first, powers[i]/powers[0]; math.Abs(got-want) > 1e-6 {
				t.Errorf("whiten %g: channel %d is seen with %g of the first one's deviation, want %g", whiten, i, got, want)
			}
		}
		if math.Abs(square-1) > 1e-6 {
			t.Errorf("whiten %g: the mean square is %g", whiten, square)
		}
	}
}

// TestPrincipal: the directions of a matrix made of three orthogonal ones come out longest first, and are orthogonal.
func TestPrincipal(t *testing.T) {
	want := [][]float64{{0.8, 0.6, 0}, {0, 0, 1}, {0.6, -0.8, 0}}
	matrix := make([]float64, 9)
	for k, length := range []float64{5, 2, 0.5} {
		for i := range 3 {
			for j := range 3 {
				matrix[3*i+j] += length * want[k][i] * want[k][j]
			}
		}
	}
	want[2] = []float64{-0.6, 0.8, 0} // the largest number of each is positive
	for k, v := range principal(matrix, 3, 3) {
		for i := range v {
			if math.Abs(v[i]-want[k][i]) > 1e-12 {
				t.Errorf("direction %d is %v, want %v", k, v, want[k])
			}
		}
	}
}

// TestMoverMistakes: shapes that no clip has are refused where they stand.
func TestMoverMistakes(t *testing.T) {
	for sets, want := range map[string]string{
		"vae.times=[1, 2]":       "2 levels have 2 answers",
		"vae.patch=4":            "",
		"model.patch=1":          "",
		"model.frames=2":         "",
		"model.frames=3":         "a token covers 3 of 2 frames",
		"vae.times=[]":           "0 levels have 2 answers",
		"vae.patch=3":            "a token covers 24 pixels",
		"vae.base=2":             "base",
		"vae.latent=24":          "",
		"vae.latent=25":          "a token is 100 numbers of latents, and the transformer 96 wide",
		"data.size=48":           "no scenes of 48 pixels",
		"vae.linear=true":        "8 components of 3 numbers do not fit",
		"vae.halves=[true,true]": "",
	} {
		_, err := Parse("a.toml", []byte("makes = \"motion\"\nname = \"a\""), []string{sets})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", sets, err)
		}
	}
}
