package main

import (
	"github.com/darkroom-rl/darkroom/diffusion/t5"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/vision/clip"
)

// Text encoders, and CLIP's two towers.

var textOps = map[string]Op{
	"models.clip":                 clipModel,
	"models.clip_text":            clipText,
	"models.clip_text_projection": clipText,
	"models.t5_encoder":           t5Encoder,
	"models.umt5_encoder":         t5Encoder,
}

// ids are an input's rows of tokens.
func (n *network) ids(name string) [][]int32 {
	var all [][]int32
	for _, row := range n.rows(name) {
		all = append(all, to[int32](row))
	}
	return all
}

func clipText(c *Case) {
	config := must(clip.ReadTextConfig(c.Dir()))
	runNetwork(c, c.Dir(), func(n *network) {
		projected := c.Op == "models.clip_text_projection"
		m := clip.NewText(n.params, config, projected)
		check(n.params.Check())
		out := m.Forward(n.tape, n.ids("in.input_ids"))
		n.out("out.hidden_m2", out.Before)
		n.out("out.last", out.Last)
		if projected {
			n.out("out.text_embeds", out.Projected)
		} else {
			n.out("out.pooled", out.Pooled)
		}
	})
}

func clipModel(c *Case) {
	config := must(clip.ReadConfig(c.Dir()))
	runNetwork(c, c.Dir(), func(n *network) {
		m := clip.New(n.params, config)
		check(n.params.Check())
		text := m.Text.Forward(n.tape, n.ids("in.input_ids")).Projected
		image := m.Vision.Forward(n.tape, n.picture("in.pixel_values"))
		n.out("out.text_features", text)
		n.out("out.image_features", image.Projected)
		n.out("out.vision_last", image.Last)
		n.out("out.vision_pooled", image.Pooled)

		// The logits are numbers, and backward begins at what they are made of.
		scale := m.Scale(n.tape)
		s := clip.Similarity(featureRows(image.Projected), featureRows(text), float64(scale.F32()[0]))
		n.Put("out.logits_per_image", table(s.Logits))
		if !n.Has("cot.logits_per_image") {
			return
		}
		var g [][]float64
		for x, cols := n.Floats("cot.logits_per_image"), text.Dim(0); len(x) > 0; x = x[cols:] {
			g = append(g, x[:cols])
		}
		di, dt, ds := s.Gradients(g)
		n.seeds = append(n.seeds, seed(image.Projected, di), seed(text, dt), seed(scale, [][]float64{{ds}}))
	})
}

// featureRows are the rows of a value.
func featureRows(v *autograd.Value) [][]float64 {
	var rows [][]float64
	for x, cols := to[float64](v.F32()), v.Dim(-1); len(x) > 0; x = x[cols:] {
		rows = append(rows, x[:cols])
	}
	return rows
}

func table(rows [][]float64) Array {
	a := Array{Shape: []int{len(rows), len(rows[0])}}
	for _, r := range rows {
		a.Data = append(a.Data, r...)
	}
	return a
}

func seed(v *autograd.Value, rows [][]float64) autograd.Seed {
	return autograd.Seed{Of: v, Grad: to[float32](table(rows).Data)}
}

func t5Encoder(c *Case) {
	config := must(t5.ReadConfig(c.Dir()))
	runNetwork(c, c.Dir(), func(n *network) {
		m := t5.New(n.params, config)
		check(n.params.Check())
		var lengths []int32
		if n.Has("in.attention_mask") {
			for _, row := range n.ids("in.attention_mask") {
				seen := int32(0)
				for _, bit := range row {
					seen += bit
				}
				lengths = append(lengths, seen)
			}
		}
		n.out("out.last", m.Forward(n.tape, n.ids("in.input_ids"), lengths))
	})
}
