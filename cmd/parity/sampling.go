package main

import "github.com/darkroom-rl/darkroom/diffusion"

// Guidance, packing of latents, and which prompts are rolled.

var samplingOps = map[string]Op{
	"guidance.cfg":      guide,
	"guidance.cfg_norm": guideNorm,
	"guidance.rescale":  rescale,
	"latent.flux_pack":  fluxPack,
	"noise.ddpm":        noised,
	"sampler.k_repeat":  repeat,
	"seed.prompt_hash":  promptHash,
}

func guide(c *Case) {
	u := c.Array("v_uncond")
	c.Put("v", Array{u.Shape, diffusion.Guide(u.Data, c.Floats("v_cond"), c.Float("scale"))})
}

func guideNorm(c *Case) {
	u := c.Array("v_uncond")
	c.Put("v", Array{u.Shape, diffusion.GuideNorm(u.Data, c.Floats("v_cond"), c.Float("scale"), u.Shape[len(u.Shape)-1])})
}

// perSample applies f to each sample's part of the arrays.
func perSample(c *Case, names []string, f func(i int, parts [][]float64)) []int {
	first := c.Array(names[0])
	n := len(first.Data) / first.Shape[0]
	for i := range first.Shape[0] {
		f(i, each(names, func(name string) []float64 { return c.Floats(name)[i*n : (i+1)*n] }))
	}
	return first.Shape
}

func rescale(c *Case) {
	var v []float64
	shape := perSample(c, []string{"v_cfg", "v_cond"}, func(_ int, p [][]float64) { v = append(v, cfgRescaled(p[0], p[1], c.Float("rescale"))...) })
	c.Put("v", Array{shape, v})
}

func noised(c *Case) {
	var x, velocity []float64
	share := c.Floats("alpha_prod")
	shape := perSample(c, []string{"x0", "noise"}, func(i int, p [][]float64) {
		xi, vi := noisedVP(p[0], p[1], share[min(i, len(share)-1)])
		x, velocity = append(x, xi...), append(velocity, vi...)
	})
	c.Put("x_t", Array{shape, x}, "velocity", Array{shape, velocity})
}

func fluxPack(c *Case) {
	l := c.Array("latents")
	channels, height, width := l.Shape[1], l.Shape[2], l.Shape[3]
	var all []float64
	var ids Array
	perSample(c, []string{"latents"}, func(_ int, p [][]float64) {
		tokens, places := must2(diffusion.Pack(p[0], channels, height, width))
		all = append(all, tokens...)
		ids = Array{Shape: []int{len(places), 3}}
		for _, at := range places {
			ids.Data = append(ids.Data, float64(at[0]), float64(at[1]), float64(at[2]))
		}
	})
	c.Put("packed", Array{[]int{l.Shape[0], height * width / 4, channels * 4}, all}, "ids", ids)
}

func repeat(c *Case) {
	unique, ranks := inGroups(c.Ints("perm1"), c.Ints("perm2"), c.Int("k"), c.Int("batch"), c.Int("world"))
	var all []any
	for _, r := range ranks {
		all = append(all, r)
	}
	c.Put("unique_prompts", unique, "per_rank", all)
}

func promptHash(c *Case) {
	seeds := each(c.Strings("prompts"), func(p string) int { return promptSeed(p, c.Int("base_seed")) })
	c.Put("seeds", seeds)
}
