package main

import (
	"github.com/darkroom-rl/darkroom/diffusion/qwenimage"
)

// Qwen-Image's transformer.

func qwenImageTransformer(c *Case) {
	config := must(qwenimage.ReadConfig(c.Dir()))
	runNetwork(c, c.Dir(), func(n *network) {
		m := qwenimage.New(n.params, config)
		check(n.params.Check())
		in := qwenimage.Inputs{Latents: n.value("in.hidden_states"), Text: n.value("in.encoder_hidden_states"), Time: n.floats("in.timestep")}
		shapes, samples := c.Ints("img_shapes"), len(in.Time)
		for shapes = shapes[:len(shapes)/samples]; len(shapes) > 2; shapes = shapes[3:] {
			in.Pictures = append(in.Pictures, qwenimage.Picture{Rows: shapes[1], Cols: shapes[2]})
		}
		in.Words = lengths(c.Array("in.encoder_hidden_states_mask"))
		n.out("out.sample", m.Forward(n.tape, in))
	})
}

// lengths are the numbers of ones at the beginning of a mask's rows.
func lengths(mask Array) []int32 {
	each := mask.Shape[1]
	var all []int32
	for row := mask.Data; len(row) > 0; row = row[each:] {
		n := int32(0)
		for int(n) < each && row[n] != 0 {
			n++
		}
		all = append(all, n)
	}
	return all
}
