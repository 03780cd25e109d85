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
			all = append(all, safetensors.ReadF32(prefix+stateName("m", i, j), s.of.Shape, s.m.DownloadPart))
			if s.v != nil {
				all = append(all, safetensors.ReadF32(prefix+stateName("v", i, j), s.of.Shape, s.v.DownloadPart))
			}
		}
	}
	return all
}

// Load reads this rank's part of the state of Tensors. States of before the parameters counted their own updates have
// one number for all: one whose average is still 0 after several was held, and has none.
func (mv *Optimizer) Load(src safetensors.Pages, prefix string) error {
	read := func(name string, to *tensor.Tensor) (moved bool, err error) {
		err = safetensors.Floats(src, prefix+name, to.Len(), func(x []float32, from int) {
			to.UploadPart(x, from)
			moved = moved || slices.ContainsFunc(x, func(v float32) bool { return v != 0 })
		})
		return moved, err
	}
	for i, g := range mv.groups {
		counts, err := src.Tensor(fmt.Sprintf("%supdates.%d", prefix, i))
		if err != nil {
			return err
		}
		t, err := counts.Float32(nil)
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
			moved, err := read(stateName("m", i, j), s.m)
			if err != nil {
				return err
			}
			if s.updates = int(t[min(j, len(t)-1)]); len(t) < len(g.state) && s.updates > 1 && !moved {
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
