package main

import (
	"fmt"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/rewards/motion"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision"
)

// How clips move.

var motionOps = map[string]Op{"motion.clip": motionClip}

// motionClip measures a clip with the flow that is recorded.
func motionClip(c *Case) {
	m := &motion.Motion{Clip: &video.Clip{}}
	for i := range c.Int("frames") {
		frame := must(vision.Open(filepath.Join(c.Dir(), fmt.Sprintf("frame_%d.png", i)), vision.Limits{}))
		m.Clip.Width, m.Clip.Height, m.Clip.Frames = frame.Width, frame.Height, append(m.Clip.Frames, frame.Pix)
	}

	m.Forward = fields(c, "forward")
	m.Backward = fields(c, "backward")
	flicker := must(motion.Flicker(m.Clip))
	dynamic := must(motion.DynamicDegree(m))
	levels, smooth := must2(motion.Smoothness(m.Clip))
	warp := must(motion.WarpError(m))
	c.Put("flicker_score", flicker)
	c.Put("dynamic", map[string]any{"top5_mean": dynamic.Top, "threshold": dynamic.Threshold, "count_needed": dynamic.Needed, "moves": dynamic.Moves})
	c.Put("smoothness_by_average", map[string]any{"mean_difference": levels, "score": smooth})
	c.Put("warp_error", map[string]any{"per_pair": warp.Errors, "mean": warp.Mean, "visible_share": warp.Visible})
	c.Put("mean_magnitude", m.Magnitudes())
}

// fields reads motion [N, H, W, 2].
func fields(c *Case, name string) []*video.Field {
	a := c.Array(name)
	if len(a.Shape) != 4 || a.Shape[3] != 2 {
		failf("%s: [N, H, W, 2] is needed, not %v", name, a.Shape)
	}
	all := make([]*video.Field, a.Shape[0])
	size := a.Shape[1] * a.Shape[2]
	for n := range all {
		all[n] = video.NewField(a.Shape[2], a.Shape[1])
		for i := range size {
			all[n].X[i], all[n].Y[i] = float32(a.Data[2*(n*size+i)]), float32(a.Data[2*(n*size+i)+1])
		}
	}
	return all
}
