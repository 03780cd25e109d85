package main

import (
	"github.com/darkroom-rl/darkroom/diffusion/vae"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
)

// Autoencoders.

var autoencoderOps = map[string]Op{
	"models.autoencoder_kl":   autoencoderKL,
	"models.autoencoder_tiny": autoencoderTiny,
}

func autoencoderKL(c *Case) error {
	config, err := vae.ReadConfig(c.Dir())
	if err != nil {
		return err
	}
	return runFolder(c, c.Dir(), how{names: vae.Names}, func(n *network) error {
		m := vae.New(n.params, config)
		if err := n.params.Check(); err != nil {
			return err
		}
		mean, logVariance := m.Encode(n.tape, n.picture("in.image"))
		n.outPicture("out.mean", mean)
		n.outPicture("out.latent", m.Scaled(n.tape, mean))
		n.outPicture("out.decoded", m.Decode(n.tape, n.picture("in.latent")))

		// The clamp is on numbers: backward begins where it let them through.
		lv := vae.ClampLogVariance(logVariance.F32())
		n.Put("out.logvar", n.array(logVariance.Shape(), lv, true))
		if n.Has("cot.logvar") {
			g := toF32(channelsLast(n.Array("cot.logvar")).Data)
			for i, x := range logVariance.F32() {
				if x != lv[i] {
					g[i] = 0
				}
			}
			n.seeds = append(n.seeds, autograd.Seed{Of: logVariance, Grad: g})
		}
		return nil
	})
}

func autoencoderTiny(c *Case) error {
	config, err := vae.ReadTinyConfig(c.Dir())
	if err != nil {
		return err
	}
	return runNetwork(c, c.Dir(), func(n *network) error {
		m := vae.NewTiny(n.params, config)
		if err := n.params.Check(); err != nil {
			return err
		}
		n.outPicture("out.latent", m.Encode(n.tape, n.picture("in.image")))
		n.outPicture("out.decoded", m.Decode(n.tape, n.picture("in.latent")))
		return nil
	})
}
