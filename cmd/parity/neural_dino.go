package main

import (
	"context"

	"github.com/darkroom-rl/darkroom/rewards/neural"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/dino"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// How alike pictures are.

func neuralDINO(ctx context.Context, c *Case, d *features.Device) error {
	t, err := dino.Open(c.Dir(), dino.Options{Device: d, Batch: 3})
	if err != nil {
		return err
	}
	defer t.Close()
	s, err := show3(c, &t.Tower)
	if err != nil {
		return err
	}
	vectors, err := t.Images(ctx, s.pictures)
	if err != nil {
		return err
	}
	c.Put("embeds", table(vectors))
	pairs := Array{Shape: []int{len(vectors), len(vectors)}}
	for _, x := range vectors {
		for _, y := range vectors {
			cosine, err := neural.Cosine(x, y)
			if err != nil {
				return err
			}
			pairs.Data = append(pairs.Data, cosine)
		}
	}
	like := neural.Likeness{Pictures: t}
	mean, _, err := like.Consistency(ctx, s.pictures)
	if err != nil {
		return err
	}
	c.Put("scores", map[string]any{"pair_cosine": pairs, "subject_consistency": mean})
	return pairGradient(ctx, c, t, s)
}

// pairGradient is that of the cosine of the first two pictures: what each does to it with the
// other held still.
func pairGradient(ctx context.Context, c *Case, t *dino.Tower, s shown) error {
	if len(s.prepared) < 2 {
		return nil
	}
	grads := make([][]float32, len(s.prepared))
	for i := range grads {
		grads[i] = make([]float32, len(s.prepared[i].RGB))
	}
	two := []vision.Pixels{s.prepared[0], s.prepared[1]}
	_, g, err := neural.Likeness{Pictures: straight{&t.Tower}}.Gradient(ctx, two, []*vision.Image{s.pictures[1], s.pictures[0]})
	if err != nil {
		return err
	}
	copy(grads, g)
	c.Put("grad_pixel_values", gradArray(grads, s.prepared))
	return nil
}
