package edition

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
)

// A Change says which stored tensors become others.
type Change interface {
	// Names are of the stored tensors that change. The folder must have each.
	Names() []string
	// Of is what takes the place of one.
	Of(stored safetensors.Tensor) (safetensors.Tensor, error)
}

// Values puts other numbers in the place of stored ones. They are rounded once to the type that the folder has, or
// with Wide stay as they are.
type Values struct {
	Source
	Wide bool
}

// Source is where the numbers are.
type Source interface {
	Names() []string
	Tensor(name string) (safetensors.Tensor, error)
}

// Of implements Change.
func (v Values) Of(stored safetensors.Tensor) (safetensors.Tensor, error) {
	t, err := v.Tensor(stored.Name)
	if err != nil {
		return stored, err
	}
	if !slices.Equal(t.Shape, stored.Shape) {
		return stored, fmt.Errorf("%s: its new shape is %v, and the folder's %v", stored.Name, t.Shape, stored.Shape)
	}
	if v.Wide || t.DType == stored.DType {
		return t, nil
	}
	x, err := t.Float32(nil)
	if err != nil {
		return stored, err
	}
	return safetensors.FromFloat32(stored.Name, stored.DType, stored.Shape, x)
}

// Over is a source with some tensors of another in the place of its own.
func Over(base, other Source) Source { return overlay{base, other, other.Names()} }

type overlay struct {
	Source
	other Source
	names []string
}

// Drop lets a stored tensor's pages go.
func (o overlay) Drop(name string) {
	if s, ok := o.Source.(interface{ Drop(string) }); ok {
		s.Drop(name)
	}
}

func (o overlay) Tensor(name string) (safetensors.Tensor, error) {
	if slices.Contains(o.names, name) {
		return o.other.Tensor(name)
	}
	return o.Source.Tensor(name)
}
