package optim

import (
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/ref"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// TestGroups: of two groups one that no pass reached stays, and does not count the update, so that its first gradient
// moves it as a first one does; names of a group begin with its own.
func TestGroups(t *testing.T) {
	pool := tensor.NewPool(ref.Backend{})
	param := func() *autograd.Param {
		return autograd.NewParam("w", pool.FromF32(kernels.F32, []float32{1, 2}, 2), true)
	}
	reach := func(p *autograd.Param) { p.AnyGrad().UploadF32([]float32{0.5, -3}) }
	a, b, alone := param(), param(), param()
	o := Defaults()
	mv, single := NewMover(0, Group{Params: []*autograd.Param{a}, Rate: 1, Options: o}, Group{Name: "second", Params: []*autograd.Param{b}, Rate: 1, Options: o}), NewMover(0, Group{Params: []*autograd.Param{alone}, Rate: 1, Options: o})
	defer mv.Free()
	defer single.Free()
	for range 3 {
		reach(a)
		mv.Move(1, 0.1)
	}
	if x := b.Value.F32(); x[0] != 1 || x[1] != 2 || mv.groups[0].adam.T != 3 || mv.groups[1].adam.T != 0 {
		t.Errorf("%v after %d and %d updates", x, mv.groups[0].adam.T, mv.groups[1].adam.T)
	}
	reach(b)
	reach(alone)
	mv.Move(1, 0.1)
	single.Move(1, 0.1)
	if x, y := b.Value.F32(), alone.Value.F32(); x[0] != y[0] || x[1] != y[1] || x[0] == 1 {
		t.Errorf("a first gradient moves to %v, and alone to %v", x, y)
	}
	mv.Hold(func(name string) bool { return name == "second.w" })
	reach(b)
	was := b.Value.F32()[0]
	if mv.Move(1, 0.1); b.Value.F32()[0] != was || b.Grad() != nil {
		t.Error("a parameter that is held moved")
	}
}
