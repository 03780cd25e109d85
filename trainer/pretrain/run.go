package pretrain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Hooks are what a run needs of its caller.
type Hooks struct {
	Backend kernels.Backend
	Say     func(line string) // told how it goes
	Context context.Context   // stops the run, which keeps its state
}

// run is a pipeline's recipe at work in a folder.
type run struct {
	Pipeline
	Hooks
	dir     string
	pool    *tensor.Pool
	data    dataset   // of the stage
	latents []float32 // of every picture, once there is an autoencoder
}

// recipeFile is the recipe beside the model that it made.
const recipeFile = "recipe.toml"

// Run makes the model in a folder, which it creates. A folder where a run of the same recipe was
// stopped is gone on with.
func Run(r Recipe, dir string, h Hooks) error {
	if err := claim(r, dir); err != nil {
		return err
	}
	return r.run(dir, h)
}

func (r *Pipeline) run(dir string, h Hooks) error {
	w := &run{Pipeline: *r, Hooks: h, dir: dir, pool: tensor.NewPool(h.Backend), data: r.dataset()}
	return w.all()
}

// all is every stage, one after another.
func (r *run) all() error {
	if err := r.writeFrame(r.dir); err != nil {
		return err
	}
	if err := r.once("vae", r.autoencoder); err != nil {
		return err
	}
	if err := r.cacheLatents(); err != nil {
		return err
	}
	if err := r.once("decoder", r.sharpen); err != nil {
		return err
	}
	if err := r.once("reconstruction", r.reportAutoencoder); err != nil {
		return err
	}
	if err := r.once("flow", r.flow); err != nil {
		return err
	}
	for n := range r.Then {
		if err := r.once(phaseName(n), func() error { return r.phase(n) }); err != nil {
			return err
		}
	}
	return nil
}

func phaseName(n int) string { return fmt.Sprintf("then[%d]", n) }

// once runs a stage that has not been finished.
func (r *run) once(name string, stage func() error) error { return r.Hooks.once(r.dir, name, stage) }

// once runs a stage of a folder's that has not been finished.
func (h Hooks) once(dir, name string, stage func() error) error {
	if finished(dir, name) {
		h.Say(name + ": done before")
		return nil
	}
	if err := stage(); err != nil {
		return err
	}
	return mark(dir, name)
}

// claim makes the folder, or checks that it is this recipe's.
func claim(r Recipe, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := r.Text()
	if err != nil {
		return err
	}
	at := filepath.Join(dir, recipeFile)
	old, err := os.ReadFile(at)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			return errors.Join(err, fmt.Errorf("%s is not empty, and holds no recipe: name another folder", dir))
		}
		return os.WriteFile(at, text, 0o644)
	case err != nil:
		return err
	case string(old) != string(text):
		return fmt.Errorf("%s was made by another recipe (%s): name another folder", dir, at)
	}
	return nil
}

// stopped is why a run is to stop.
func (h Hooks) stopped() error {
	if h.Context == nil {
		return nil
	}
	return h.Context.Err()
}

func (r *run) maker() maker { return maker{dir: r.dir, pool: r.pool, key: rng.New(r.Seed)} }

// latentLen is how many numbers a latent has.
func (r *run) latentLen() int { return r.latentSide() * r.latentSide() * r.VAE.Latent }

// latent is picture i's.
func (r *run) latent(i int) []float32 {
	return r.latents[i*r.latentLen() : (i+1)*r.latentLen()]
}

// cacheLatents encodes every picture by the autoencoder as it was saved.
func (r *run) cacheLatents() error {
	v, params, err := r.maker().autoencoder(&r.Pipeline, false)
	if err != nil {
		return err
	}
	defer params.Free()
	r.latents = make([]float32, 0, r.Data.Scenes*r.latentLen())
	for lo := 0; lo < r.Data.Scenes; lo += 64 {
		if err := r.stopped(); err != nil {
			return err
		}
		r.latents = append(r.latents, r.encode(v, lo, min(lo+64, r.Data.Scenes))...)
	}
	return nil
}

// reportAutoencoder says how good the autoencoder is, on four pictures for each prompt of the judge, at most 256.
func (r *run) reportAutoencoder() error {
	f, err := Reconstruct(r.pool, r.dir, min(256, 4*r.Judge.Prompts))
	if err != nil {
		return err
	}
	r.Say(f.String())
	return writeGrid(filepath.Join(r.dir, "reconstruction.png"), f.pictures[:min(64, len(f.pictures))], 8)
}
