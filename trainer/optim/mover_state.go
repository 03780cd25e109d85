package optim

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// What a checkpoint keeps of a Mover.

// Free gives the state's memory back.
func (mv *Mover) Free() {
	for _, g := range mv.groups {
		for _, s := range g.state {
			s.m.Free()
			if s.v != nil {
				s.v.Free()
			}
		}
	}
}

// stateName is by number: models that are trained together may share names.
func stateName(kind string, group, i int) string { return fmt.Sprintf("%s.%d.%d", kind, group, i) }

// Tensors is the state for writing: a pair a parameter, and the updates done.
func (mv *Mover) Tensors(prefix string) []safetensors.Tensor {
	var all []safetensors.Tensor
	for i, g := range mv.groups {
		all = append(all, safetensors.FromF32(fmt.Sprintf("%supdates.%d", prefix, i), []int{1}, []float32{float32(g.adam.T)}))
		for j, s := range g.state {
			all = append(all, safetensors.FromF32(prefix+stateName("m", i, j), s.of.Shape, s.m.F32()))
			if s.v != nil {
				all = append(all, safetensors.FromF32(prefix+stateName("v", i, j), s.of.Shape, s.v.F32()))
			}
		}
	}
	return all
}

// Load reads what Tensors wrote.
func (mv *Mover) Load(src interface {
	Tensor(name string) (safetensors.Tensor, error)
}, prefix string) error {
	read := func(name string, into *tensor.Tensor) ([]float32, error) {
		t, err := src.Tensor(prefix + name)
		if err != nil {
			return nil, err
		}
		x, err := t.Float32(nil)
		if err == nil && into != nil {
			if len(x) != into.Len() {
				return nil, fmt.Errorf("%s%s: %d numbers for the state of %d", prefix, name, len(x), into.Len())
			}
			into.UploadF32(x)
		}
		return x, err
	}
	for i, g := range mv.groups {
		t, err := read(fmt.Sprintf("updates.%d", i), nil)
		if err != nil {
			return err
		}
		if len(t) != 1 {
			return fmt.Errorf("%supdates.%d: %d numbers, not one", prefix, i, len(t))
		}
		g.adam.T = int(t[0])
		for j, s := range g.state {
			if _, err := read(stateName("m", i, j), s.m); err != nil {
				return err
			}
			if s.v != nil {
				if _, err := read(stateName("v", i, j), s.v); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
