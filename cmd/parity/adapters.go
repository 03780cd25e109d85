package main

import (
	"math"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/diffusion/mmdit"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
	"github.com/darkroom-rl/darkroom/video/dit"
)

// Low-rank adapters on a model.

var adapterOps = map[string]Op{
	"models.lora":     func(c *Case) { lora(c, sd3WithAdapter) },
	"models.wan_lora": func(c *Case) { lora(c, wanWithAdapter) },
}

// lora runs a base model with an adapter in PEFT's layout. What upstream gave for the base
// alone, and for the other layouts, is held to here too.
func lora(c *Case, open openedModel) {
	l := loraCase{c, filepath.Join(c.Dir(), c.String("base")), open}
	for layout, want := range map[string]string{"": "base.sample", "diffusers": "loaded.diffusers.sample", "diffusers_metadata": "loaded.diffusers_metadata.sample"} {
		if !c.Has(want) {
			continue
		}
		l.run(layout, true, func(n *network) { n.near("out.sample", want) })
	}
	l.run("peft", false, func(*network) {})
}

// An openedModel makes a model of a folder, and says how it is run at the case's inputs.
type openedModel func(n *network, dir string) (run func())

func sd3WithAdapter(n *network, dir string) func() {
	m := mmdit.New(n.params, must(mmdit.ReadConfig(dir)))
	check(n.params.Check())
	return func() {
		x := n.picture("in.hidden_states")
		text, pooled := n.value("in.encoder_hidden_states"), n.value("in.pooled_projections")
		n.outPicture("out.sample", m.Forward(n.tape, x, text, pooled, n.floats("in.timestep")))
	}
}

func wanWithAdapter(n *network, dir string) func() {
	m := dit.New(n.params, must(dit.ReadConfig(dir)))
	check(n.params.Check())
	return func() { n.wan(m) }
}

type loraCase struct {
	*Case
	base string
	open openedModel
}

// run opens the base, puts the adapter of a layout on it ("" for none), and runs it.
func (l loraCase) run(layout string, forwardOnly bool, after func(n *network)) {
	runFolder(l.Case, l.base, how{frozen: true, forwardOnly: forwardOnly}, func(n *network) {
		run := l.open(n, l.base)
		if layout != "" {
			a := must(peft.Open(filepath.Join(l.Dir(), l.String(layout)), "transformer"))
			defer a.Close()
			must(a.AddTo(n.params))
		}
		run()
		after(n)
	})
}

// near compares an output with a tensor of another name, to a part in ten thousand of
// the largest.
func (n *network) near(out, name string) {
	o, want := n.outs[out], n.Array(name)
	got := n.array(o.v.Shape(), o.v.F32(), o.picture)
	largest := 0.0
	for _, x := range want.Data {
		largest = max(largest, math.Abs(x))
	}
	for i, x := range want.Data {
		if d := math.Abs(got.Data[i] - x); !(d <= 1e-4*largest) {
			failf("%s[%d] is %g, recorded %g", name, i, got.Data[i], x)
		}
	}
}
