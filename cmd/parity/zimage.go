package main

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/diffusion/zimage"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
)

// Z-Image's transformer: samples of sizes of their own.

func zImageTransformer(c *Case) {
	config := must(zimage.ReadConfig(c.Dir()))
	runNetwork(c, c.Dir(), func(n *network) {
		m := zimage.New(n.params, config)
		check(n.params.Check())
		for i, t := range n.floats("in.timestep") {
			x := n.tape.Permute(n.value(fmt.Sprintf("in.hidden_states.%d", i)), 1, 2, 3, 0) // which the case has as channels, frame, row, column
			y := m.Forward(n.tape, x, n.oneSample(fmt.Sprintf("in.encoder_hidden_states.%d", i)), t)
			n.out(fmt.Sprintf("out.sample.%d", i), n.tape.Permute(y, 3, 0, 1, 2))
		}
	})
}

// oneSample is an input of rows as those of one sample.
func (n *network) oneSample(name string) *autograd.Value {
	x := n.value(name)
	rows := times(x.Dim(0), func(i int) int32 { return int32(i) })
	return n.tape.Gather(x, rows, 1, len(rows))
}
