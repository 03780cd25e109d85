package pretrain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/trainer/optim"
)

// Hooks are a run's callbacks.
type Hooks struct {
	Backend kernels.Backend
	Log     func(line string) // called with lines about the progress
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
		h.Log(name + ": done before")
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
	r.Log(f.String())
	return writeGrid(filepath.Join(r.dir, "reconstruction.png"), f.pictures[:min(64, len(f.pictures))], 8)
}

// stage is one loop of updates.
type stage struct {
	Stage
	name  string
	pool  *tensor.Pool
	mover *optim.Optimizer
	say   func(step, steps int, format string, args ...any)
}

// begin sets a stage up. Its reports go to say.
func (s Stage) begin(name string, pool *tensor.Pool, say func(line string), groups ...optim.Group) stage {
	for i := range groups {
		o := optim.Defaults()
		o.Betas, o.WeightDecay = s.Betas, s.Decay
		if groups[i].Muon {
			o.Betas[0] = 0.95
		}
		groups[i].Options = o
	}
	return stage{s, name, pool, optim.NewOptimizer(s.GradClip, groups...), func(step, steps int, format string, args ...any) {
		say(fmt.Sprintf("%s %d/%d  ", name, step, steps) + fmt.Sprintf(format, args...))
	}}
}

// groupsOf gives matrices to Muon, at its rate beside lr, but for those whose names have one of
// the parts, and the rest to AdamW.
func groupsOf(all []*autograd.Param, muon float64, not ...string) []optim.Group {
	var hidden, rest []*autograd.Param
	for _, p := range all {
		named := slices.ContainsFunc(not, func(part string) bool { return strings.Contains(p.Name, part) })
		if muon > 0 && len(p.Shape) == 2 && !named {
			hidden = append(hidden, p)
		} else {
			rest = append(rest, p)
		}
	}
	out := []optim.Group{{Params: rest, Rate: 1}}
	if len(hidden) > 0 {
		out = append(out, optim.Group{Params: hidden, Rate: muon, Muon: true})
	}
	return out
}

// rate is the learning rate of an update, counted from 1: it rises, then falls along half a
// cosine to a share of the highest.
func (s Stage) rate(step int, least float64) float64 {
	fall := least + float64((1-least)*0.5*(1+portable.Cos(math.Pi*float64(step)/float64(s.Steps))))
	return s.LR * min(1, float64(step)/float64(max(1, s.Warmup))) * fall
}

func (s *stage) tape() *autograd.Tape {
	return autograd.New(s.pool, autograd.Options{DType: kernels.BF16, Math: kernels.MathBF16, Train: true})
}

// mean is a running mean of reported numbers.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64) { m.sum, m.n = m.sum+v, m.n+1 }

func (m *mean) take() float64 {
	v := m.sum / float64(max(1, m.n))
	*m = mean{}
	return v
}

// A run that is stopped keeps the state to go on as it would have: weights, optimiser and average in fp32, and the
// step. Draws need no state: it is a function of the step.
func (g *progress) file() string { return filepath.Join(g.dir, g.stage+".state.safetensors") }

// progress is the content of a state.
type progress struct {
	dir    string
	stage  string
	params []*nn.Params
	mover  *optim.Optimizer
	shadow *optim.Shadow
}

func (g *progress) save(step int) error {
	all := []safetensors.Tensor{safetensors.FromF32("step", []int{1}, []float32{float32(step)})}
	for i, p := range g.params {
		for _, w := range p.Trained() {
			all = append(all, safetensors.FromF32(fmt.Sprintf("w.%d.%s", i, w.Name), w.Shape, w.Value.F32()))
		}
	}
	for i, v := range g.shadow.Values {
		all = append(all, safetensors.FromF32(fmt.Sprintf("average.%d", i), v.Shape(), v.F32()))
	}
	all = append(all, g.mover.Tensors("optimiser.")...)
	if err := safetensors.Write(g.file(), all, nil); err != nil {
		return fmt.Errorf("saving the state of step %d: %w", step, err)
	}
	return nil
}

// orSave keeps the state of a run that was stopped.
func (g *progress) orSave(stopped error, step int) error { return errors.Join(stopped, g.save(step)) }

// load returns the step that the state was saved after; 0 without one.
func (g *progress) load() (step int, err error) {
	f, err := safetensors.Open(g.file())
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	read := func(name string, n int) ([]float32, error) {
		t, err := f.Tensor(name)
		if err != nil {
			return nil, err
		}
		x, err := t.Float32(nil)
		if err == nil && len(x) != n {
			err = fmt.Errorf("%s: %s has %d numbers, not %d: it belongs to another recipe", f.Path, name, len(x), n)
		}
		return x, err
	}
	at, err := read("step", 1)
	if err != nil {
		return 0, err
	}
	for i, p := range g.params {
		for _, w := range p.Trained() {
			x, err := read(fmt.Sprintf("w.%d.%s", i, w.Name), w.Value.Len())
			if err != nil {
				return 0, err
			}
			w.Value.UploadF32(x)
			w.Updated()
		}
	}
	for i, v := range g.shadow.Values {
		x, err := read(fmt.Sprintf("average.%d", i), v.Len())
		if err != nil {
			return 0, err
		}
		v.UploadF32(x)
	}
	return int(at[0]), g.mover.Load(f, "optimiser.")
}

// finished reports whether a stage's mark is there, and mark leaves it.
func finished(dir, stage string) bool {
	_, err := os.Stat(filepath.Join(dir, stage+".done"))
	return err == nil
}

func mark(dir, stage string) error {
	return os.WriteFile(filepath.Join(dir, stage+".done"), nil, 0o644)
}
