package main

import (
	"fmt"
	"math"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/diffusion/mmdit"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
)

// Low-rank adapters on a model.

var adapterOps = map[string]Op{"models.lora": lora}

// lora runs a base model with an adapter in PEFT's layout. What upstream gave for the base
// alone, and for the other layouts, is held to here too.
func lora(c *Case) error {
	l := loraCase{c, filepath.Join(c.Dir(), c.String("base"))}
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

type loraCase struct {
	*Case
	base string
}

// run opens the base, puts the adapter of a layout on it ("" for none), and runs it.
func (l loraCase) run(layout string, forwardOnly bool, after func(n *network) error) error {
	config, err := mmdit.ReadConfig(l.base)
	if err != nil {
		return err
	}
	return runFolder(l.Case, l.base, how{frozen: true, forwardOnly: forwardOnly}, func(n *network) error {
		m := mmdit.New(n.params, config)
		if err := n.params.Check(); err != nil {
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
		x := n.picture("in.hidden_states")
		text, pooled := n.value("in.encoder_hidden_states"), n.value("in.pooled_projections")
		n.outPicture("out.sample", m.Forward(n.tape, x, text, pooled, n.floats("in.timestep")))
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
