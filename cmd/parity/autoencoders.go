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

func autoencoderKL(c *Case) {
	config := must(vae.ReadConfig(c.Dir()))
	runFolder(c, c.Dir(), how{names: vae.Names}, func(n *network) {
		m := vae.New(n.params, config)
		check(n.params.Check())
		mean, logVariance := m.Encode(n.tape, n.picture("in.image"))
		n.outPicture("out.mean", mean)
		n.outPicture("out.latent", m.Scaled(n.tape, mean))
		n.outPicture("out.decoded", m.Decode(n.tape, n.picture("in.latent")))

		n.cut("logvar", logVariance, clampLogVariance)
	})
}

// cut records an output whose numbers are bounded: backward begins where the bounds let them through.
func (n *network) cut(name string, v *autograd.Value, bound func(x []float32) []float32) {
	x := v.F32()
	y := bound(x)
	n.Put("out."+name, n.array(v.Shape(), y, true))
	if !n.Has("cot." + name) {
		return
	}
	g := to[float32](channelsLast(n.Array("cot." + name)).Data)
	for i := range g {
		if x[i] != y[i] {
			g[i] = 0
		}
	}
	n.seeds = append(n.seeds, autograd.Seed{Of: v, Grad: g})
}

// autoencoderWan runs clip by clip: each has a causal cache of its own.
func autoencoderWan(c *Case) {
	config := must(clips.ReadConfig(c.Dir()))
	runNetwork(c, c.Dir(), func(n *network) {
		m := clips.New(n.params, config)
		check(n.params.Check())
		// clipwise runs f on every clip of an input, and joins what it makes.
		clipwise := func(name string, f func(clip *autograd.Value) []*autograd.Value) (joined []*autograd.Value) {
			v := n.clip(name)
			var made [][]*autograd.Value // by output, then by clip
			for i := range v.Dim(0) {
				for k, out := range f(n.tape.Reshape(n.tape.Part(v, i, i+1), v.Shape()[1:]...)) {
					if i == 0 {
						made = append(made, nil)
					}
					made[k] = append(made[k], n.tape.Reshape(out, append([]int{1}, out.Shape()...)...))
				}
			}
			for _, clips := range made {
				joined = append(joined, n.tape.Concat(0, clips...))
			}
			return joined
		}
		encoded := clipwise("in.video", func(clip *autograd.Value) []*autograd.Value {
			mean, logVariance := m.Encode(n.tape, clip)
			return []*autograd.Value{mean, m.Scaled(n.tape, mean), logVariance}
		})
		n.outPicture("out.mean", encoded[0])
		n.outPicture("out.latent", encoded[1])
		n.cut("logvar", encoded[2], clampLogVariance)
		decoded := clipwise("in.latent", func(clip *autograd.Value) []*autograd.Value {
			return []*autograd.Value{m.Decode(n.tape, clip)}
		})
		n.cut("decoded", decoded[0], func(x []float32) []float32 {
			return each(x, func(v float32) float32 { return min(max(v, -1), 1) })
		})
	})
}

func autoencoderTiny(c *Case) {
	config := must(vae.ReadTinyConfig(c.Dir()))
	runNetwork(c, c.Dir(), func(n *network) {
		m := vae.NewTiny(n.params, config)
		check(n.params.Check())
		n.outPicture("out.latent", m.Encode(n.tape, n.picture("in.image")))
		n.outPicture("out.decoded", m.Decode(n.tape, n.picture("in.latent")))
	})
}

// clampLogVariance bounds the logarithm of the variance, as upstream does before it draws.
func clampLogVariance(x []float32) []float32 {
	return each(x, func(v float32) float32 { return min(max(v, -30), 20) })
}
