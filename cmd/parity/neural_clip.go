package main

import (
	"context"

	"github.com/darkroom-rl/darkroom/rewards/neural"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/clip"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// Towers of both: CLIP score, PickScore and HPSv2.

// matched computes what CLIP's rewards share: vectors, gradients, and the scores of both paths.
func matched(ctx context.Context, c *Case, t *clip.Towers, s shown, put func(images, texts [][]float64)) (scores []neural.Matched, soft []float64) {
	prompts := c.Strings("prompts")
	put(must(t.Images(ctx, s.pictures)), must(t.Texts(ctx, prompts)))
	cosine := must(neural.ScalingNamed("cosine"))
	m := neural.Match{Towers: t, Scaling: cosine}
	scores = must(m.Images(ctx, prompts, s.pictures))
	_, g := must2(neural.Match{Towers: straightTowers{t, straight{&t.Tower}}, Scaling: cosine}.Gradient(ctx, prompts, s.prepared))
	c.Put("grad_pixel_values", gradArray(g, s.prepared))
	soft, g = must2(m.Gradient(ctx, prompts, s.raw))
	c.Put("grad_raw", gradArray(g, s.raw))
	return scores, soft
}

// tokens puts texts' tokens, and which of them are texts', padded with a token.
func putTokens(c *Case, t *clip.Towers, ids, mask string, texts []string, length int, pad func(row []int32) int32) {
	rows := make([][]int32, len(texts))
	for i, s := range texts {
		rows[i], _, _ = t.IDs(s) // texts of cases can be encoded; another one has no ids to agree with
		length = max(length, len(rows[i]))
	}
	a, m := Array{Shape: []int{len(rows), length}}, Array{Shape: []int{len(rows), length}}
	for _, r := range rows {
		for i := range length {
			if i < len(r) {
				a.Data, m.Data = append(a.Data, float64(r[i])), append(m.Data, 1)
			} else {
				a.Data, m.Data = append(a.Data, float64(pad(r))), append(m.Data, 0)
			}
		}
	}
	c.Put(ids, a, mask, m)
}

func lastToken(row []int32) int32 { return row[len(row)-1] }
func zeroToken([]int32) int32     { return 0 }

func neuralCLIP(ctx context.Context, c *Case, d *features.Device) {
	t := must(clip.Open(c.Dir(), clip.Options{Device: d, Batch: 2}))
	defer t.Close()
	prompts := c.Strings("prompts")
	putTokens(c, t, "input_ids", "attention_mask", prompts, 0, lastToken)
	if c.Has("long_prompt") && len(prompts) > 0 {
		long := []string{c.String("long_prompt"), prompts[0]}
		putTokens(c, t, "long_ids", "long_mask", long, 0, lastToken)
		c.Put("long_text_embeds", table(must(t.Texts(ctx, long))))
	}
	s := show3(c, &t.Tower)
	scores, soft := matched(ctx, c, t, s, func(images, texts [][]float64) {
		c.Put("image_embeds", table(images), "text_embeds", table(texts))
	})
	softPixels(c, &t.Tower, s.raw)
	out := map[string]any{"cosine_soft_path": soft, "logit_scale": t.Scale()}
	for name, scaling := range map[string]string{"cosine": "cosine", "clip_flow_factory": "cosine", "pickscore_flow_grpo": "pickscore_flow_grpo", "pickscore_mixgrpo": "pickscore_mixgrpo", "pickscore_pref_grpo": "pickscore_pref_grpo"} {
		out[name] = rescaled(scores, t.Scale(), scaling)
	}
	out["logits_per_text"], out["choice_probability"] = choices(ctx, t, prompts, s.pictures)
	c.Put("scores", out)
}

func softPixels(c *Case, t *features.Tower, raw []vision.Pixels) {
	var out []vision.Pixels
	for _, p := range raw {
		soft := must(t.Soft.Soft(p.Width, p.Height))
		out = append(out, vision.Pixels{Width: soft.Size, Height: soft.Size, RGB: must(soft.Forward(p))})
	}
	c.Put("soft_pixel_values", pixelArray(out))
}

func rescaled(scores []neural.Matched, scale float64, name string) (out []float64) {
	s := must(neural.ScalingNamed(name))
	for _, m := range scores {
		v, _ := s.Of(m.Cosine, scale)
		out = append(out, v)
	}
	return out
}

// choices compares every prompt with all pictures.
func choices(ctx context.Context, t *clip.Towers, prompts []string, pictures []*vision.Image) (logits, chosen Array) {
	m := neural.Match{Towers: t, Scaling: must(neural.ScalingNamed("logit"))}
	logits.Shape = []int{len(prompts), len(pictures)}
	chosen.Shape = logits.Shape
	for _, p := range prompts {
		scores := must(m.Images(ctx, times(len(pictures), func(i int) string { return p }), pictures))
		row := each(scores, func(s neural.Matched) float64 { return s.Value })
		shares, _ := softmax(row) // how probable it is that people choose each (PickScore)
		logits.Data, chosen.Data = append(logits.Data, row...), append(chosen.Data, shares...)
	}
	return logits, chosen
}

func neuralHPSv2(ctx context.Context, c *Case, d *features.Device) {
	t := must(clip.Open(c.Dir(), clip.Options{Device: d, Batch: 2, Prepare: vision.HPSv2}))
	defer t.Close()
	putTokens(c, t, "input_ids", "input_mask", c.Strings("prompts"), t.Length(), zeroToken)
	scores, soft := matched(ctx, c, t, show3(c, &t.Tower), func(images, texts [][]float64) {
		c.Put("image_features", table(units(images)), "text_features", table(units(texts)))
	})
	c.Put("scores", map[string]any{"hps": rescaled(scores, t.Scale(), "cosine"), "hps_soft_path": soft})
}

// units are rows of length 1.
func units(rows [][]float64) [][]float64 {
	unit, _ := clip.Units(rows)
	return unit
}
