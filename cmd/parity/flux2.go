package main

import "github.com/darkroom-rl/darkroom/diffusion/flux2"

// FLUX.2's transformer.

func flux2Transformer(c *Case) {
	config := must(flux2.ReadConfig(c.Dir()))
	runNetwork(c, c.Dir(), func(n *network) {
		m := flux2.New(n.params, config)
		check(n.params.Check())
		in := flux2.Inputs{Latents: n.value("in.hidden_states"), Text: n.value("in.encoder_hidden_states"), Time: n.floats("in.timestep"),
			Places: n.rows("in.img_ids"), TextPlaces: n.rows("in.txt_ids")}
		in.Places, in.TextPlaces = in.Places[:in.Latents.Dim(1)], in.TextPlaces[:in.Text.Dim(1)] // those of all samples are the same
		if config.Guidance {
			in.Guidance = n.floats("in.guidance")
		}
		n.out("out.sample", m.Forward(n.tape, in))
	})
}
