package pretrain

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
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

// TestEditor: a model of edits comes out of its recipe, as a pipeline that reads a picture of the folder's side and makes
// one; stopped and gone on with, it is the same.
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
		h.Backend, h.Say = be, func(string) {}
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
}

// TestPackedAsPipeline: pairs are packed as the pipeline packs what it reads.
func TestPackedAsPipeline(t *testing.T) {
	r := &editorRun{Editor: DefaultEditor(), run: &run{Pipeline: Pipeline{VAE: DefaultEditor().VAE}}}
	z := make([]float32, r.latentLen())
	for i := range z {
		z[i] = float32(i)
	}
	c, side := r.Editor.VAE.Latent, r.latentSide()
	got := r.packed(z)
	for _, at := range [][3]int{{0, 0, 0}, {3, 5, 2}, {side - 1, side - 2, c - 1}} {
		y, x, k := at[0], at[1], at[2]
		token := y/2*(side/2) + x/2
		if v := got[token*4*c+4*k+2*(y%2)+x%2]; v != z[(y*side+x)*c+k] {
			t.Errorf("row %d, column %d, channel %d is %g", y, x, k, v)
		}
	}
}
