package pretrain

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/diffusion/flux"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/scenes"
)

// smallEditor is a recipe of seconds.
const smallEditor = `
makes = "edit"
name = "small"
data = { scenes = 64, pairs = 16 }
vae = { steps = 2, batch = 2, channels = [8, 8, 8, 8], latent = 4 }
decoder = { steps = 1, batch = 2 }
model = { layers = 1, single_layers = 1, heads = 1 }
flow = { steps = 3, batch = 2, micro = 1, save_every = 1 }
judge = { prompts = 1, steps = 2, every = 100 }
`

// TestEditor: a model of edits comes out of its recipe, as a pipeline that reads a picture of the folder's side and
// makes one; stopped and gone on with, it is the same.
func TestEditor(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds, and minutes without assembly; left out by -short")
	}
	be := backend(t)
	make := func(dir string, h Hooks, sets ...string) error {
		r, err := Parse("small.toml", []byte(smallEditor), sets)
		if err != nil {
			t.Fatal(err)
		}
		h.Backend, h.Log = be, func(string) {}
		return Run(r, dir, h)
	}
	whole, parts := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "parts")
	if err := make(whole, Hooks{}); err != nil {
		t.Fatal(err)
	}
	if err := make(parts, Hooks{Context: &patience{context.Background(), 7}}); err == nil {
		t.Fatal("nothing stopped it")
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
	large := vision.New(96, 128)
	if h, w := p.SizeFor(large); h != scenes.Size || w != scenes.Size {
		t.Errorf("a picture is %d x %d", w, h)
	}
	given, err := p.Source(t.Context(), large)
	if err != nil || given.Length() != 16 {
		t.Errorf("a source is %d tokens (%v)", given.Length(), err)
	}

	// Another takes its autoencoder, on pictures of half the side.
	other := filepath.Join(t.TempDir(), "other")
	sets := []string{"autoencoder=" + whole, "data.side=32", `data.verbs=["make"]`, "data.clean=2", "model.copies=true"}
	if err := make(other, Hooks{}, sets...); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("vae", "diffusion_pytorch_model.safetensors")
	a, err := os.ReadFile(filepath.Join(whole, file))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(other, file)); err != nil || string(a) != string(b) {
		t.Errorf("the autoencoder is another (%v)", err)
	}
	q, err := pipeline.Open(other, pipeline.Options{Pool: tensor.NewPool(be)})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if h, w := q.SizeFor(large); h != 32 || w != 32 {
		t.Errorf("a picture is %d x %d", w, h)
	}
	if err := make(filepath.Join(t.TempDir(), "none"), Hooks{}, append(sets, "vae.latent=8")...); err == nil || !strings.Contains(err.Error(), "vae.latent") {
		t.Errorf("an autoencoder of other latents: %v", err)
	}
}

// TestVerbs: pairs are of the verbs that a recipe names.
func TestVerbs(t *testing.T) {
	r := &editorRun{Editor: DefaultEditor(), key: rng.New(3)}
	r.Editor.Data.Verbs = []string{"make", "remove"}
	seen := map[string]int{}
	for i := range 40 {
		seen[strings.Fields(r.edit(i).Text)[0]]++
	}
	if len(seen) != 2 || seen["make"] == 0 || seen["remove"] == 0 {
		t.Errorf("%v", seen)
	}
}

// TestNoLevels: an autoencoder without levels is refused by its key, in every recipe that has one.
func TestNoLevels(t *testing.T) {
	for _, recipe := range []string{"name = \"a\"", "makes = \"edit\"\nname = \"a\""} {
		if _, err := Parse("a.toml", []byte(recipe), []string{"vae.channels=[]"}); err == nil || !strings.Contains(err.Error(), "0 levels do not divide") {
			t.Errorf("%s: %v", recipe, err)
		}
	}
}

// TestPackedAsPipeline: pairs are packed as the pipeline packs its inputs.
func TestPackedAsPipeline(t *testing.T) {
	r := &editorRun{Editor: DefaultEditor(), run: &run{Pipeline: Pipeline{VAE: DefaultEditor().VAE}}}
	z := make([]float32, r.pairLen())
	for i := range z {
		z[i] = float32(i)
	}
	c, side := r.Editor.VAE.Latent, r.pairSide()
	got := r.packed(z)
	for _, at := range [][3]int{{0, 0, 0}, {3, 5, 2}, {side - 1, side - 2, c - 1}} {
		y, x, k := at[0], at[1], at[2]
		token := y/2*(side/2) + x/2
		if v := got[token*4*c+4*k+2*(y%2)+x%2]; v != z[(y*side+x)*c+k] {
			t.Errorf("row %d, column %d, channel %d is %g", y, x, k, v)
		}
	}
}

// TestCopies: a transformer that begins by copying has a velocity that leads from noise to its source.
func TestCopies(t *testing.T) {
	const in, side = 32, 4
	c := flux.Config{PatchSize: 1, In: in, Out: in, Single: 4, Heads: 2, HeadDim: 32, Context: 32, Pooled: 32, Axes: []int{8, 12, 12}}
	pool := tensor.NewPool(backend(t))
	p, err := nn.New(nn.Options{Pool: pool, Key: rng.New(1), Train: []string{".*"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Free()
	m := flux.New(p, c)
	if err := errors.Join(p.Check(), zero(p, []string{`single_transformer_blocks\..*norm\.linear\.weight`, `norm_out\.linear\..*`}), copies(p, c)); err != nil {
		t.Fatal(err)
	}
	n := side * side * in
	x, source := make([]float32, n), make([]float32, n)
	rng.New(1).With("noise").Normal(x, 0)
	rng.New(1).With("source").Normal(source, 0)
	tp := autograd.New(pool, autograd.Options{})
	defer tp.Reset()
	v := m.Forward(tp, flux.Inputs{Latents: tp.Upload("x", x, 1, side*side, in), Sources: tp.Upload("source", source, 1, side*side, in),
		Text: tp.Upload("text", make([]float32, 5*32), 1, 5, 32), Pooled: tp.Upload("pooled", make([]float32, 32), 1, 32), Time: []float32{1},
		Places: slices.Concat(flux.Grid(0, side, side), flux.Grid(1, side, side)), TextPlaces: flux.Nowhere(5)}).F32()
	off, all := 0.0, 0.0
	for i := range v {
		want := float64(x[i] - source[i])
		off += (float64(v[i]) - lead*want) * (float64(v[i]) - lead*want)
		all += want * want
	}
	t.Logf("relative squared error %.3f", off/all)
	if off > 0.2*all {
		t.Errorf("the velocity is off by %.2f of the way from noise to source", off/all)
	}
}
