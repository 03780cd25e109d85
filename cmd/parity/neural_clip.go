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
func matched(ctx context.Context, c *Case, t *clip.Towers, s shown, put func(images, texts [][]float64)) (scores []neural.Matched, soft []float64, err error) {
	prompts := c.Strings("prompts")
	images, err := t.Images(ctx, s.pictures)
	if err != nil {
		return nil, nil, err
	}
	texts, err := t.Texts(ctx, prompts)
	if err != nil {
		return nil, nil, err
	}
	put(images, texts)
	cosine, err := neural.ScalingNamed("cosine")
	if err != nil {
		return nil, nil, err
	}
	m := neural.Match{Towers: t, Scaling: cosine}
	if scores, err = m.Images(ctx, prompts, s.pictures); err != nil {
		return nil, nil, err
	}
	_, g, err := neural.Match{Towers: straightTowers{t, straight{&t.Tower}}, Scaling: cosine}.Gradient(ctx, prompts, s.prepared)
	if err != nil {
		return nil, nil, err
	}
	c.Put("grad_pixel_values", gradArray(g, s.prepared))
	soft, g, err = m.Gradient(ctx, prompts, s.raw)
	if err != nil {
		return nil, nil, err
	}
	c.Put("grad_raw", gradArray(g, s.raw))
	return scores, soft, nil
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
	c.Put(ids, a)
	c.Put(mask, m)
}

func lastToken(row []int32) int32 { return row[len(row)-1] }
func zeroToken([]int32) int32     { return 0 }

func neuralCLIP(ctx context.Context, c *Case, d *features.Device) error {
	t, err := clip.Open(c.Dir(), clip.Options{Device: d, Batch: 2})
	if err != nil {
		return err
	}
	defer t.Close()
	prompts := c.Strings("prompts")
	putTokens(c, t, "input_ids", "attention_mask", prompts, 0, lastToken)
	if c.Has("long_prompt") && len(prompts) > 0 {
		long := []string{c.String("long_prompt"), prompts[0]}
		putTokens(c, t, "long_ids", "long_mask", long, 0, lastToken)
		vectors, err := t.Texts(ctx, long)
		if err != nil {
			return err
		}
		c.Put("long_text_embeds", table(vectors))
	}
	s, err := show3(c, &t.Tower)
	if err != nil {
		return err
	}
	scores, soft, err := matched(ctx, c, t, s, func(images, texts [][]float64) {
		c.Put("image_embeds", table(images))
		c.Put("text_embeds", table(texts))
	})
	if err != nil {
		return err
	}
	if err := softPixels(c, &t.Tower, s.raw); err != nil {
		return err
	}
	out := map[string]any{"cosine_soft_path": soft, "logit_scale": t.Scale()}
	for name, scaling := range map[string]string{"cosine": "cosine", "clip_flow_factory": "cosine", "pickscore_flow_grpo": "pickscore_flow_grpo", "pickscore_mixgrpo": "pickscore_mixgrpo", "pickscore_pref_grpo": "pickscore_pref_grpo"} {
		if out[name], err = rescaled(scores, t.Scale(), scaling); err != nil {
			return err
		}
	}
	if out["logits_per_text"], out["choice_probability"], err = choices(ctx, t, prompts, s.pictures); err != nil {
		return err
	}
	c.Put("scores", out)
	return nil
}

func softPixels(c *Case, t *features.Tower, raw []vision.Pixels) error {
	var out []vision.Pixels
	for _, p := range raw {
		soft, err := t.Soft.Soft(p.Width, p.Height)
		if err != nil {
			return err
		}
		x, err := soft.Forward(p)
		if err != nil {
			return err
		}
		out = append(out, vision.Pixels{Width: soft.Size, Height: soft.Size, RGB: x})
	}
	c.Put("soft_pixel_values", pixelArray(out))
	return nil
}

func rescaled(scores []neural.Matched, scale float64, name string) (out []float64, err error) {
	s, err := neural.ScalingNamed(name)
	if err != nil {
		return nil, err
	}
	for _, m := range scores {
		v, _ := s.Of(m.Cosine, scale)
		out = append(out, v)
	}
	return out, nil
}

// choices compares every prompt with all pictures.
func choices(ctx context.Context, t *clip.Towers, prompts []string, pictures []*vision.Image) (logits, chosen Array, err error) {
	scaling, err := neural.ScalingNamed("logit")
	if err != nil {
		return logits, chosen, err
	}
	m := neural.Match{Towers: t, Scaling: scaling}
	logits.Shape = []int{len(prompts), len(pictures)}
	chosen.Shape = logits.Shape
	for _, p := range prompts {
		same := make([]string, len(pictures))
		for i := range same {
			same[i] = p
		}
		scores, err := m.Images(ctx, same, pictures)
		if err != nil {
			return logits, chosen, err
		}
		var row []float64
		for _, s := range scores {
			row = append(row, s.Value)
		}
		shares, _ := softmax(row) // how probable it is that people choose each (PickScore)
		logits.Data, chosen.Data = append(logits.Data, row...), append(chosen.Data, shares...)
	}
	return logits, chosen, nil
}

func neuralHPSv2(ctx context.Context, c *Case, d *features.Device) error {
	t, err := clip.Open(c.Dir(), clip.Options{Device: d, Batch: 2, Prepare: vision.HPSv2})
	if err != nil {
		return err
	}
	defer t.Close()
	putTokens(c, t, "input_ids", "input_mask", c.Strings("prompts"), t.Length(), zeroToken)
	s, err := show3(c, &t.Tower)
	if err != nil {
		return err
	}
	scores, soft, err := matched(ctx, c, t, s, func(images, texts [][]float64) {
		c.Put("image_features", table(units(images)))
		c.Put("text_features", table(units(texts)))
	})
	if err != nil {
		return err
	}
	hps, err := rescaled(scores, t.Scale(), "cosine")
	c.Put("scores", map[string]any{"hps": hps, "hps_soft_path": soft})
	return err
}

// units are rows of length 1.
func units(rows [][]float64) [][]float64 {
	unit, _ := clip.Units(rows)
	return unit
}
