package trained

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// Values are the trained parameters of a model, in fp32, by their names in its folder. They are an nn.Source.
type Values struct {
	params *nn.Params
	names  []string // in the order of a checkpoint's numbers
	file   *safetensors.File
	prefix string
	pool   *tensor.Pool
	free   func() error
}

// Values opens the parameters that were trained. The model lies in r.Model; dry is a backend that computes nothing,
// and pool lies on one that computes: it turns convolutions to the order of the disk.
func (r *Run) Values(of Which, dry kernels.Backend, pool *tensor.Pool) (v *Values, err error) {
	defer kernels.Recover(&err)
	if err := r.check(of); err != nil {
		return nil, err
	}
	patterns, adapted := r.Experiment.Model.Trained()
	if adapted {
		return nil, fmt.Errorf("%s trained an adapter, and not the model itself", r.Dir)
	}
	v = &Values{pool: pool, prefix: model.Prefix(trainer.Current)}
	if of == EMA {
		v.prefix = model.Prefix(model.Average(r.now()))
	}
	if v.params, v.free, err = r.Modality().Network(r.Model, r.Experiment.Model.Base, tensor.NewPool(dry), patterns); err != nil {
		return nil, fmt.Errorf("opening the model that %s trained: %w\nhint: --model names its folder, if it lies elsewhere now", r.Dir, err)
	}
	for _, p := range v.params.Trained() {
		v.names = append(v.names, p.Name)
	}
	if v.file, err = safetensors.Open(filepath.Join(r.Checkpoint.Dir, model.TensorsFile)); err != nil {
		return nil, errors.Join(err, v.free())
	}
	if err := v.check(r); err != nil {
		return nil, errors.Join(err, v.Close())
	}
	return v, nil
}

// check compares the numbers of weights.
func (v *Values) check(r *Run) error {
	has := v.file.Names()
	for i, name := range v.names {
		if !slices.Contains(has, v.stored(i)) {
			return fmt.Errorf("%s: there is no %s, which is %s of %s\nhint: the model is not the one that was trained, or the checkpoint is of another version", v.file.Path, v.stored(i), name, r.Model)
		}
	}
	if slices.Contains(has, v.stored(len(v.names))) {
		return fmt.Errorf("%s: it has more weights than the %d that %s trains of %s\nhint: the model is not the one that was trained", v.file.Path, len(v.names), r.Dir, r.Model)
	}
	return nil
}

func (v *Values) stored(i int) string { return fmt.Sprintf("%s%d", v.prefix, i) }

// Names are the parameters'.
func (v *Values) Names() []string { return v.names }

// Tensor reads one, as the disk has it.
func (v *Values) Tensor(name string) (safetensors.Tensor, error) {
	i := slices.Index(v.names, name)
	if i < 0 {
		return safetensors.Tensor{}, fmt.Errorf("%s: it was not trained", name)
	}
	t, err := v.file.Tensor(v.stored(i))
	if err != nil {
		return t, err
	}
	x, err := t.Float32(nil)
	if err != nil {
		return t, err
	}
	return v.params.OnDisk(v.pool, i, x)
}

// Close lets files and parameters go.
func (v *Values) Close() error { return errors.Join(v.file.Close(), v.free()) }
