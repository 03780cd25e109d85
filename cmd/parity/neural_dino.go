package main

import (
	"context"

	"github.com/darkroom-rl/darkroom/rewards/neural"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/dino"
	"github.com/darkroom-rl/darkroom/vision/features"
)

// How alike pictures are.

func neuralDINO(ctx context.Context, c *Case, d *features.Device) {
	t := must(dino.Open(c.Dir(), dino.Options{Device: d, Batch: 3}))
	defer t.Close()
	s := show3(c, &t.Tower)
	vectors := must(t.Images(ctx, s.pictures))
	c.Put("embeds", table(vectors))
	pairs := Array{Shape: []int{len(vectors), len(vectors)}}
	for _, x := range vectors {
		for _, y := range vectors {
			pairs.Data = append(pairs.Data, must(neural.Cosine(x, y)))
		}
	}
	mean, _ := must2(neural.Likeness{Pictures: t}.Consistency(ctx, s.pictures))
	c.Put("scores", map[string]any{"pair_cosine": pairs, "subject_consistency": mean})
	pairGradient(ctx, c, t, s)
}

// pairGradient is that of the cosine of the first two pictures: what each does to it with the
// other held still.
func pairGradient(ctx context.Context, c *Case, t *dino.Tower, s shown) {
	if len(s.prepared) < 2 {
		return
	}
	grads := times(len(s.prepared), func(i int) []float32 { return make([]float32, len(s.prepared[i].RGB)) })
	two := []vision.Pixels{s.prepared[0], s.prepared[1]}
	_, g := must2(neural.Likeness{Pictures: straight{&t.Tower}}.Gradient(ctx, two, []*vision.Image{s.pictures[1], s.pictures[0]}))
	copy(grads, g)
	c.Put("grad_pixel_values", gradArray(grads, s.prepared))
}
