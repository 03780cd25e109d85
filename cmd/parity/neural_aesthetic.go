package main

import (
	"context"
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/rewards/neural"
	"github.com/darkroom-rl/darkroom/vision/clip"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// Heads on pictures' vectors, and the scales of published scores.

func neuralAesthetic(ctx context.Context, c *Case, d *features.Device) {
	t := must(clip.Open(c.Dir(), clip.Options{Device: d, Batch: 2, NoTexts: true}))
	defer t.Close()
	head := must(neural.OpenHead(c.Dir()))
	s := show3(c, &t.Tower)
	images := must(t.Images(ctx, s.pictures))
	c.Put("image_embeds", table(images), "image_embeds_unit", table(units(images)))
	scores := must(neural.Aesthetic{Pictures: t, Head: head}.Images(ctx, s.pictures))
	_, g := must2(neural.Aesthetic{Pictures: straight{&t.Tower}, Head: head}.Gradient(ctx, s.prepared))
	c.Put("grad_pixel_values", gradArray(g, s.prepared))
	soft, g := must2(neural.Aesthetic{Pictures: t, Head: head}.Gradient(ctx, s.raw))
	c.Put("grad_raw", gradArray(g, s.raw), "scores", map[string]any{"aesthetic": scores, "aesthetic_soft_path": soft})
}

// byRule are numbers that any program can make again.
func byRule(rows, cols, fan int, salt uint64) []float64 {
	x := make([]float64, rows*cols)
	for i := range x {
		u := float64((uint64(i)*2654435761+salt*40503)&0xffffffff) / (1 << 32)
		x[i] = (u - 0.5) * (2 / math.Sqrt(float64(fan)))
	}
	return x
}

// aestheticMLP is the published head with weights by rule.
func aestheticMLP(c *Case) {
	salt, rows := uint64(c.Int("salt")), c.Int("rows")
	if rows < 1 || rows > 1<<12 {
		failf("%d rows", rows)
	}
	var layers []neural.Dense
	var names []string
	var shapes [][]int
	for _, l := range neural.PublishedHead {
		k := salt + uint64(len(names))
		layers = append(layers, neural.Dense{In: l.In, Out: l.Out, Weight: byRule(l.Out, l.In, l.In, k), Bias: byRule(1, l.Out, 1, k+1)})
		names = append(names, fmt.Sprintf("layers.%d.weight", l.Number), fmt.Sprintf("layers.%d.bias", l.Number))
		shapes = append(shapes, []int{l.Out, l.In}, []int{l.Out})
	}
	head := must(neural.NewHead(layers...))
	width := layers[0].In
	var scores, norms, first []float64
	for x := byRule(rows, width, width, salt+99); len(x) > 0; x = x[width:] {
		value, g := must2(head.Pull(x[:width]))
		sum := 0.0
		for _, v := range g {
			sum += v * v
		}
		scores, norms, first = append(scores, value), append(norms, math.Sqrt(sum)), append(first, g[:8]...)
	}
	c.Put("names", names, "shapes", shapes, "score", scores, "grad_norm", norms)
	c.Put("grad_first_8", Array{[]int{rows, 8}, first})
}

func scoreScales(c *Case) {
	scale := c.Float("logit_scale")
	for output, name := range map[string]string{"pickscore": "logit", "pickscore_flow_grpo": "pickscore_flow_grpo", "pickscore_mixgrpo": "pickscore_mixgrpo",
		"clipscore_hessel": "clipscore_hessel", "clipscore_torchmetrics": "clipscore_torchmetrics"} {
		scores := each(c.Floats("cosine"), func(x float64) neural.Matched { return neural.Matched{Cosine: x} })
		c.Put(output, rescaled(scores, scale, name))
	}
	var raw []float64 // as vision/blip scales them
	for _, x := range c.Floats("imagereward_raw") {
		raw = append(raw, (x-0.16717362830052426)/1.0333394966054072)
	}
	c.Put("imagereward", raw)
}
