package pretrain

import (
	"github.com/darkroom-rl/darkroom/video"
	"github.com/darkroom-rl/darkroom/vision/scenes/moving"
)

// The clips that a text-to-clip model sees, and their captions: of a seed, drawn again wherever they are needed.

// clipLen is how many numbers a clip has.
const clipLen = moving.Frames * moving.Size * moving.Size * 3

// scene is what clip i shows: none whose caption is held out.
func (r *wanRun) scene(i int) moving.Scene {
	for try := 0; ; try++ {
		if s := moving.Random(r.key.With("scene").Sample(i).Attempt(try).Draw()); !moving.HeldOut(s.Prompt()) {
			return s
		}
	}
}

// clip is clip i, as numbers between -1 and 1.
func (r *wanRun) clip(i int) []float32 {
	return clipFloats(r.film(r.scene(i), moving.Jitter(r.key.With("jitter").Sample(i).Draw())))
}

// film is the clip of a scene: one whose first frame does not say where the thing goes, where that frame is given.
func (r *wanRun) film(s moving.Scene, at moving.Place) *video.Clip {
	if r.Model.Picture {
		return s.Begin(at)
	}
	return s.Draw(at)
}

func clipFloats(c *video.Clip) []float32 {
	x := make([]float32, clipLen)
	for t, px := range c.Frames {
		toFloats(px, x[t*len(px):])
	}
	return x
}

// caption is what clip i is said to show at some epoch: sometimes wrong, sometimes nothing.
func (r *wanRun) caption(i, epoch int) string {
	if r.key.With("caption").Iteration(epoch).Sample(i).Draw().Float64() < r.Data.Drop {
		return ""
	}
	s := r.scene(i)
	if wrong := r.key.With("caption noise").Sample(i).Draw(); wrong.Float64() < r.Data.Noise {
		s = s.Corrupt(wrong)
	}
	return s.Prompt()
}
