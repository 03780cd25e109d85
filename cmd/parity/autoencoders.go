package main

import (
	"github.com/darkroom-rl/darkroom/diffusion/vae"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	clips "github.com/darkroom-rl/darkroom/video/vae"
)

// Autoencoders.

var autoencoderOps = map[string]Op{
	"models.autoencoder_kl":     autoencoderKL,
	"models.autoencoder_kl_wan": autoencoderWan,
	"models.autoencoder_tiny":   autoencoderTiny,
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

		n.cut("logvar", logVariance, 0, clampLogVariance)
		return nil
	})
}

// cut records an output whose numbers are bounded: backward begins where the bounds let them through.
// The case has an axis of length 1 in front where one is lacking.
func (n *network) cut(name string, v *autograd.Value, lacking int, bound func(x []float32) []float32) {
	shape := append([]int{1}[:lacking], v.Shape()...)
	x := v.F32()
	y := bound(x)
	n.Put("out."+name, n.array(shape, y, true))
	if !n.Has("cot." + name) {
		return
	}
	g := toF32(channelsLast(n.Array("cot." + name)).Data)
	for i := range g {
		if x[i] != y[i] {
			g[i] = 0
		}
	}
	n.seeds = append(n.seeds, autograd.Seed{Of: v, Grad: g})
}

// autoencoderWan is one clip, which the case has as a batch.
func autoencoderWan(c *Case) error {
	config, err := clips.ReadConfig(c.Dir())
	if err != nil {
		return err
	}
	return runNetwork(c, c.Dir(), func(n *network) error {
		m := clips.New(n.params, config)
		if err := n.params.Check(); err != nil {
			return err
		}
		one := func(name string) *autograd.Value {
			v := n.clip(name)
			return n.tape.Reshape(v, v.Shape()[1:]...)
		}
		batch := func(v *autograd.Value) *autograd.Value { return n.tape.Reshape(v, append([]int{1}, v.Shape()...)...) }
		mean, logVariance := m.Encode(n.tape, one("in.video"))
		n.outPicture("out.mean", batch(mean))
		n.outPicture("out.latent", batch(m.Scaled(n.tape, mean)))
		n.cut("logvar", logVariance, 1, clampLogVariance)
		n.cut("decoded", m.Decode(n.tape, one("in.latent")), 1, func(x []float32) []float32 {
			y := make([]float32, len(x))
			for i, v := range x {
				y[i] = min(max(v, -1), 1)
			}
			return y
		})
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

// clampLogVariance bounds the logarithm of the variance, as upstream does before it draws.
func clampLogVariance(x []float32) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = min(max(v, -30), 20)
	}
	return y
}
