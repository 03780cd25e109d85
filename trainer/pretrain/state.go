package pretrain

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/trainer/optim"
)

// A run that is stopped keeps what it needs to go on as it would have: weights, optimiser and
// average in fp32, and the step. What is drawn needs nothing: it is a function of the step.
func (g *progress) file() string { return filepath.Join(g.dir, g.stage+".state.safetensors") }

// progress is what a state holds.
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

// load returns the step that the state was saved after; 0 where there is none.
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
