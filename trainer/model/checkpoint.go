package model

import (
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/trainer"
)

// How a checkpoint holds a learner, under names that begin with a prefix:
//
//	weights.K        the K-th parameter that moves
//	others.W.K       the same of another set of weights, W as trainer.Weights numbers it
//	optimiser.*      the optimiser's averages

// TensorsFile is the file of a checkpoint that has them. EMA is the folder beside it that has the adapter's moving
// average.
const (
	TensorsFile = "state.safetensors"
	EMA         = "ema"
)

// Prefix begins the names of a set's weights.
func Prefix(of trainer.Weights) string {
	if of == trainer.Current {
		return "weights."
	}
	return fmt.Sprintf("others.%d.", of)
}

// Tensors are a learner's, each of which is made when it is written: of a whole network they are several times its
// size.
func (w *Learner) Tensors(prefix string) []safetensors.Tensor {
	var all []safetensors.Tensor
	for i, p := range w.params {
		all = append(all, safetensors.MakeF32(fmt.Sprintf("%s%s%d", prefix, Prefix(trainer.Current), i), p.Shape, p.Value.F32))
	}
	for of, s := range w.others {
		for i, v := range s.Values {
			all = append(all, safetensors.MakeF32(fmt.Sprintf("%s%s%d", prefix, Prefix(of), i), v.Shape(), v.F32))
		}
	}
	return append(all, w.mover.Tensors(prefix+"optimiser.")...)
}

// Load goes back to a checkpoint's.
func (w *Learner) Load(f *safetensors.File, prefix string) error {
	if err := w.Take(f, prefix); err != nil {
		return err
	}
	for of, s := range w.others {
		for i, v := range s.Values {
			x, err := numbers(f, fmt.Sprintf("%s%s%d", prefix, Prefix(of), i), v.Len())
			if err != nil {
				return err
			}
			v.UploadF32(x)
		}
	}
	return w.mover.Load(f, prefix+"optimiser.")
}

// Values are those of a set of weights, under the names that the current ones have in a checkpoint.
func (w *Learner) Values(of trainer.Weights, prefix string) (all []safetensors.Tensor, err error) {
	if of == trainer.Reference && w.others[of] == nil {
		return nil, errors.New("the reference is the model without its adapter, and has no values of its own")
	}
	err = w.With(of, func() error {
		for i, p := range w.params {
			all = append(all, safetensors.FromF32(fmt.Sprintf("%s%s%d", prefix, Prefix(trainer.Current), i), p.Shape, p.Value.F32()))
		}
		return nil
	})
	return all, err
}

// Take makes such values those of the current weights.
func (w *Learner) Take(f *safetensors.File, prefix string) error {
	for i, p := range w.params {
		x, err := numbers(f, fmt.Sprintf("%s%s%d", prefix, Prefix(trainer.Current), i), p.Value.Len())
		if err != nil {
			return err
		}
		p.Value.UploadF32(x)
		p.Updated()
	}
	return nil
}

// Bytes are about what a checkpoint of the learner takes: weights, two averages of their gradients, other
// weights, and the adapter once more for other programs.
func (w *Learner) Bytes() int64 {
	n := 0
	for _, p := range w.params {
		n += p.Value.Len()
	}
	return int64(n) * 4 * int64(3+len(w.others)+1)
}

// numbers are a tensor's n numbers.
func numbers(f *safetensors.File, name string, n int) ([]float32, error) {
	x, err := f.Tensor(name)
	if err != nil {
		return nil, err
	}
	out, err := x.Float32(nil)
	if err == nil && len(out) != n {
		err = fmt.Errorf("%s: %s has %d numbers, not %d", f.Path, name, len(out), n)
	}
	return out, err
}
