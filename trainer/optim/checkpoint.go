package optim

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// An Optimizer's state in a checkpoint.

// Free gives the state's memory back.
func (mv *Optimizer) Free() {
	for _, g := range mv.groups {
		for _, s := range g.state {
			if s.m != nil {
				s.m.Free()
			}
			if s.v != nil {
				s.v.Free()
			}
		}
	}
}

// stateName is by number: models that are trained together may share names.
func stateName(kind string, group, i int) string { return fmt.Sprintf("%s.%d.%d", kind, group, i) }

// Tensors is the state for writing, of all ranks: a pair a parameter, each made when it is written, and the updates of
// each.
func (mv *Optimizer) Tensors(prefix string) []safetensors.Tensor {
	var all []safetensors.Tensor
	for i, g := range mv.groups {
		updates := make([]float32, len(g.state))
		for j := range g.state {
			updates[j] = float32(mv.at(i, j).updates)
		}
		all = append(all, safetensors.FromF32(fmt.Sprintf("%supdates.%d", prefix, i), []int{len(updates)}, updates))
		for j := range g.state {
			s := mv.at(i, j)
			all = append(all, safetensors.MakeF32(prefix+stateName("m", i, j), s.of.Shape, s.m.F32))
			if s.v != nil {
				all = append(all, safetensors.MakeF32(prefix+stateName("v", i, j), s.of.Shape, s.v.F32))
			}
		}
	}
	return all
}

// Load reads this rank's part of the state of Tensors. States of before the parameters counted their own updates have
// one number for all: one whose average is still 0 after several was held, and has none.
func (mv *Optimizer) Load(src interface {
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
		if len(t) != 1 && len(t) != len(g.state) {
			return fmt.Errorf("%supdates.%d: %d numbers, not %d, one a parameter", prefix, i, len(t), len(g.state))
		}
		for j := range g.state {
			s := &g.state[j]
			if s.m == nil {
				continue
			}
			m, err := read(stateName("m", i, j), s.m)
			if err != nil {
				return err
			}
			if s.updates = int(t[min(j, len(t)-1)]); len(t) < len(g.state) && s.updates > 1 && !slices.ContainsFunc(m, func(x float32) bool { return x != 0 }) {
				s.updates = 0
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
