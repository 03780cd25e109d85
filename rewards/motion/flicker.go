package motion

import (
	"math"

	"github.com/darkroom-rl/darkroom/video"
)

// Card: VBench's temporal flickering: (255 - mean over pairs of the mean |difference|) / 255.
// A still clip has 1 and any motion lowers it, so alone it rewards clips that stand still.

// Flicker is 1 where nothing changes from frame to frame.
func Flicker(c *video.Clip) (float64, error) {
	if err := c.Check(); err != nil {
		return 0, err
	}
	if len(c.Frames) < 2 {
		return 0, ErrShort
	}
	sum := 0.0
	for i, f := range c.Frames[1:] {
		sum += difference(c.Frames[i], f)
	}
	return (255 - sum/float64(len(c.Frames)-1)) / 255, nil
}

// difference is the mean of |a - b|.
func difference(a, b []uint8) float64 {
	sum := 0
	for i, v := range a {
		d := int(v) - int(b[i])
		sum += max(d, -d)
	}
	return float64(sum) / float64(len(a))
}

// Card: VBench's motion smoothness, (255 - mean |difference|) / 255 between every second frame
// and what is interpolated from its neighbours; here that is their mean, half to even, where
// VBench asks a network. A still clip has 1.

// Smoothness is the mean difference of odd frames from their neighbours' mean, in levels, and
// the score.
func Smoothness(c *video.Clip) (levels, score float64, err error) {
	if err := c.Check(); err != nil {
		return 0, 0, err
	}
	if len(c.Frames) < 3 {
		return 0, 0, ErrShort
	}
	between := make([]uint8, len(c.Frames[0]))
	n := 0
	for i := 1; i+1 < len(c.Frames); i += 2 {
		a, b := c.Frames[i-1], c.Frames[i+1]
		for j, v := range a {
			between[j] = uint8(math.RoundToEven((float64(v) + float64(b[j])) / 2))
		}
		levels += difference(c.Frames[i], between)
		n++
	}
	levels /= float64(n)
	return levels, (255 - levels) / 255, nil
}
