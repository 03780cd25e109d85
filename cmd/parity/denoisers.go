package main

import (
	"github.com/darkroom-rl/darkroom/diffusion/flux"
	"github.com/darkroom-rl/darkroom/diffusion/mmdit"
	"github.com/darkroom-rl/darkroom/diffusion/unet"
)

// Diffusion networks.

var denoiserOps = map[string]Op{
	"models.flux_transformer": fluxTransformer,
	"models.sd3_transformer":  sd3Transformer,

	"models.flux2_transformer":      flux2Transformer,
	"models.z_image_transformer":    zImageTransformer,
	"models.qwen_image_transformer": qwenImageTransformer,
	"models.unet2d_condition":       unetCondition,
}

func sd3Transformer(c *Case) {
	config := must(mmdit.ReadConfig(c.Dir()))
	runNetwork(c, c.Dir(), func(n *network) {
		m := mmdit.New(n.params, config)
		check(n.params.Check())
		x := n.picture("in.hidden_states")
		text, pooled := n.value("in.encoder_hidden_states"), n.value("in.pooled_projections")
		n.outPicture("out.sample", m.Forward(n.tape, x, text, pooled, n.floats("in.timestep")))
	})
}

func fluxTransformer(c *Case) {
	config := must(flux.ReadConfig(c.Dir()))
	runNetwork(c, c.Dir(), func(n *network) {
		m := flux.New(n.params, config)
		check(n.params.Check())
		in := flux.Inputs{Latents: n.value("in.hidden_states"), Text: n.value("in.encoder_hidden_states"), Pooled: n.value("in.pooled_projections"),
			Time: n.floats("in.timestep"), Places: n.rows("in.img_ids"), TextPlaces: n.rows("in.txt_ids")}
		if config.Guidance {
			in.Guidance = n.floats("in.guidance")
		}
		n.out("out.sample", m.Forward(n.tape, in))
	})
}

func unetCondition(c *Case) {
	config := must(unet.ReadConfig(c.Dir()))
	runNetwork(c, c.Dir(), func(n *network) {
		m := unet.New(n.params, config)
		check(n.params.Check())
		in := unet.Inputs{Latents: n.picture("in.sample"), Text: n.value("in.encoder_hidden_states"), Time: n.floats("in.timestep")}
		if config.Added != "" {
			in.Pooled, in.Sizes = n.value("in.text_embeds"), n.rows("in.time_ids")
		}
		n.outPicture("out.sample", m.Forward(n.tape, in))
	})
}
