package optim

import (
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
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
	mv, single := NewOptimizer(0, Group{Params: []*autograd.Param{a}, Rate: 1, Options: o}, Group{Name: "second", Params: []*autograd.Param{b}, Rate: 1, Options: o}), NewOptimizer(0, Group{Params: []*autograd.Param{alone}, Rate: 1, Options: o})
	defer mv.Free()
	defer single.Free()
	for range 3 {
		reach(a)
		mv.Move(1, 0.1)
	}
	if x := b.Value.F32(); x[0] != 1 || x[1] != 2 || mv.groups[0].state[0].updates != 3 || mv.groups[1].state[0].updates != 0 {
		t.Errorf("%v after %d and %d updates", x, mv.groups[0].state[0].updates, mv.groups[1].state[0].updates)
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

// stored is a state that was written.
type stored map[string]safetensors.Tensor

func (stored) Drop(string) {}

func (s stored) Tensor(name string) (safetensors.Tensor, error) { return s[name], nil }

func storedOf(all []safetensors.Tensor) stored {
	s := stored{}
	for _, t := range all {
		s[t.Name] = made(t)
	}
	return s
}

// TestUpdatesCounted: a parameter that was held while another moved for long then moves as one that nobody held, after
// going on from a checkpoint, too, or from one that has a single count for all.
func TestUpdatesCounted(t *testing.T) {
	pool := tensor.NewPool(ref.Backend{})
	opened := func() (*Optimizer, []*autograd.Param) {
		a := autograd.NewParam("a", pool.FromF32(kernels.F32, []float32{1, 2}, 2), true)
		b := autograd.NewParam("b", pool.FromF32(kernels.F32, []float32{1, 2}, 2), true)
		return NewOptimizer(0, Group{Params: []*autograd.Param{a, b}, Rate: 1, Options: Defaults()}), []*autograd.Param{a, b}
	}
	move := func(mv *Optimizer, ps ...*autograd.Param) {
		for _, p := range ps {
			p.AnyGrad().UploadF32([]float32{0.5, -3})
		}
		mv.Move(1, 0.01)
	}
	alone, ps := opened()
	defer alone.Free()
	var want [][]float32
	for range 3 {
		move(alone, ps[1])
		want = append(want, ps[1].Value.F32())
	}
	held, hs := opened()
	defer held.Free()
	held.Hold(func(name string) bool { return name == "b" })
	for range 500 {
		move(held, hs...)
	}
	written := storedOf(held.Tensors(""))
	old := storedOf(held.Tensors(""))
	old["updates.0"] = safetensors.FromF32("updates.0", []int{1}, []float32{500})
	for name, from := range map[string]stored{"the same": nil, "resumed": written, "resumed from one count": old} {
		mv, ps := held, hs
		if from != nil {
			mv, ps = opened()
			defer mv.Free()
			if err := mv.Load(from, ""); err != nil {
				t.Fatal(err)
			}
		}
		mv.Hold(func(string) bool { return false })
		for i := range 3 {
			move(mv, ps...)
			if got := ps[1].Value.F32(); got[0] != want[i][0] || got[1] != want[i][1] {
				t.Errorf("%s: update %d of a parameter that was held for 500 moves it to %v, and by itself to %v", name, i+1, got, want[i])
			}
		}
		if n := mv.groups[0].state[0].updates; n != 503 {
			t.Errorf("%s: the other has %d updates, want 503", name, n)
		}
	}
}

// TestConfig: the options can be written as a user would, and mistakes in them are found at their place.
func TestConfig(t *testing.T) {
	read := func(text string) (Options, error) {
		doc := config.Parse("run.toml", []byte(text))
		o := Defaults()
		doc.Decode("optim", &o)
		o.Check(func(key, problem, hint string) { doc.Report("optim."+key, problem, hint) })
		return o, doc.Err()
	}
	o, err := read("[optim]\nlr = 1e-4\nbetas = [0.9, 0.95]\nschedule = \"cosine\"\nwarmup = 5\nema = 0.9\nema_every = 8\nema_shape = { kind = \"ramp\", rate = 0.01 }\n")
	if err != nil || o.LR != 1e-4 || o.Betas[1] != 0.95 || o.EMAShape.Rate != 0.01 || o.GradClip != 1 {
		t.Errorf("%+v, %v", o, err)
	}
	_, err = read("[optim]\nlr = 0\nbetas = [0.9, 1.0]\nschedule = \"cosin\"\neps = 1e-310\n") // 0 as float32, and 0/0 of a parameter without a gradient yet
	for _, says := range []string{"lr", "betas", "cosine", "optim.eps"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not mention %q", err, says)
		}
	}
}
