package main

import (
	"fmt"
	"math"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/diffusion/mmdit"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
	"github.com/darkroom-rl/darkroom/video/dit"
)

// Low-rank adapters on a model.

var adapterOps = map[string]Op{
	"models.lora":     func(c *Case) error { return lora(c, sd3WithAdapter) },
	"models.wan_lora": func(c *Case) error { return lora(c, wanWithAdapter) },
}

// lora runs a base model with an adapter in PEFT's layout. What upstream gave for the base
// alone, and for the other layouts, is held to here too.
func lora(c *Case, open openedModel) error {
	l := loraCase{c, filepath.Join(c.Dir(), c.String("base")), open}
	for layout, want := range map[string]string{"": "base.sample", "diffusers": "loaded.diffusers.sample", "diffusers_metadata": "loaded.diffusers_metadata.sample"} {
		if !c.Has(want) {
			continue
		}
		if err := l.run(layout, true, func(n *network) error { return n.near("out.sample", want) }); err != nil {
			return fmt.Errorf("%s: %w", want, err)
		}
	}
	return l.run("peft", false, func(*network) error { return nil })
}

// An openedModel makes a model of a folder, and says how it is run at the case's inputs.
type openedModel func(n *network, dir string) (run func() error, err error)

func sd3WithAdapter(n *network, dir string) (func() error, error) {
	config, err := mmdit.ReadConfig(dir)
	if err != nil {
		return nil, err
	}
	m := mmdit.New(n.params, config)
	return func() error {
		x := n.picture("in.hidden_states")
		text, pooled := n.value("in.encoder_hidden_states"), n.value("in.pooled_projections")
		n.outPicture("out.sample", m.Forward(n.tape, x, text, pooled, n.floats("in.timestep")))
		return nil
	}, n.params.Check()
}

func wanWithAdapter(n *network, dir string) (func() error, error) {
	config, err := dit.ReadConfig(dir)
	if err != nil {
		return nil, err
	}
	m := dit.New(n.params, config)
	return func() error { return n.wan(m) }, n.params.Check()
}

type loraCase struct {
	*Case
	base string
	open openedModel
}

// run opens the base, puts the adapter of a layout on it ("" for none), and runs it.
func (l loraCase) run(layout string, forwardOnly bool, after func(n *network) error) error {
	return runFolder(l.Case, l.base, how{frozen: true, forwardOnly: forwardOnly}, func(n *network) error {
		run, err := l.open(n, l.base)
		if err != nil {
			return err
		}
		if layout != "" {
			a, err := peft.Open(filepath.Join(l.Dir(), l.String(layout)), "transformer")
			if err != nil {
				return err
			}
			defer a.Close()
			if _, err := a.AddTo(n.params); err != nil {
				return err
			}
		}
		if err := run(); err != nil {
			return err
		}
		return after(n)
	})
}

// near compares an output with a tensor of another name, to a part in ten thousand of
// the largest.
func (n *network) near(out, name string) error {
	o, want := n.outs[out], n.Array(name)
	got := n.array(o.v.Shape(), o.v.F32(), o.picture)
	largest := 0.0
	for _, x := range want.Data {
		largest = max(largest, math.Abs(x))
	}
	for i, x := range want.Data {
		if d := math.Abs(got.Data[i] - x); !(d <= 1e-4*largest) {
			return fmt.Errorf("[%d] is %g, recorded %g", i, got.Data[i], x)
		}
	}
	return nil
}
