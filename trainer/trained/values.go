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

// Values are the trained parameters of a model's networks, in fp32.
type Values struct {
	Networks []*Network
	file     *safetensors.File
	prefix   string
	pool     *tensor.Pool
	free     func() error
}

// Network is the trained parameters of one network, by their names in its folder. It is an nn.Source.
type Network struct {
	Number int // 0, or 1 of a second that takes turns with the first
	params *nn.Params
	names  []string // in the order of a checkpoint's numbers
	first  int      // the number of its first
	of     *Values
}

// Values opens the parameters that were trained. The model lies in r.Model; dry is a backend that computes nothing,
// and pool lies on one that computes: it turns convolutions to the order of the disk.
func (r *Run) Values(of Which, dry kernels.Backend, pool *tensor.Pool) (v *Values, err error) {
	defer kernels.Recover(&err)
	of = r.Named(of)
	if err := r.check(of); err != nil {
		return nil, err
	}
	if r.Adapted() {
		return nil, fmt.Errorf("%s trained an adapter, and not the model itself", r.Dir)
	}
	v = &Values{pool: pool, prefix: model.Prefix(trainer.Current)}
	if of == EMA {
		v.prefix = model.Prefix(model.Average(r.now()))
	}
	networks, free, err := r.Modality().Networks(r.Model, r.Experiment.Model, tensor.NewPool(dry))
	if err != nil {
		return nil, fmt.Errorf("opening the model that %s trained: %w\nhint: --model names its folder, if it lies elsewhere now", r.Dir, err)
	}
	v.free = free
	for _, n := range networks {
		one := &Network{Number: n.Number, params: n.Params, first: v.Len(), of: v}
		for _, p := range n.Trained() {
			one.names = append(one.names, p.Name)
		}
		v.Networks = append(v.Networks, one)
	}
	if v.file, err = safetensors.Open(filepath.Join(r.Checkpoint.Dir, model.TensorsFile)); err != nil {
		return nil, errors.Join(err, v.free())
	}
	if err := v.check(r); err != nil {
		return nil, errors.Join(err, v.Close())
	}
	return v, nil
}

// Len is how many parameters were trained.
func (v *Values) Len() (n int) {
	for _, one := range v.Networks {
		n += len(one.names)
	}
	return n
}

// check compares the numbers of weights.
func (v *Values) check(r *Run) error {
	has := v.file.Names()
	for _, n := range v.Networks {
		for i, name := range n.names {
			if stored := v.stored(n.first + i); !slices.Contains(has, stored) {
				return fmt.Errorf("%s: there is no %s, which is %s of %s\nhint: the model is not the one that was trained, or the checkpoint is of another version", v.file.Path, stored, name, r.Model)
			}
		}
	}
	if n := v.Len(); slices.Contains(has, v.stored(n)) {
		return fmt.Errorf("%s: it has more weights than the %d that %s trains of %s\nhint: the model is not the one that was trained", v.file.Path, n, r.Dir, r.Model)
	}
	return nil
}

func (v *Values) stored(i int) string { return fmt.Sprintf("%s%d", v.prefix, i) }

// Names are the parameters'.
func (n *Network) Names() []string { return n.names }

// Tensor reads one, as the disk has it.
func (n *Network) Tensor(name string) (safetensors.Tensor, error) {
	i := slices.Index(n.names, name)
	if i < 0 {
		return safetensors.Tensor{}, fmt.Errorf("%s: it was not trained", name)
	}
	t, err := n.of.file.Tensor(n.of.stored(n.first + i))
	if err != nil {
		return t, err
	}
	x, err := t.Float32(nil)
	if err != nil {
		return t, err
	}
	return n.params.OnDisk(n.of.pool, i, x)
}

// Close lets files and parameters go.
func (v *Values) Close() error { return errors.Join(v.file.Close(), v.free()) }
