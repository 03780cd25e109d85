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

// Card: VBench's motion smoothness, (255 - mean |difference|) / 255 between every second frame and the one
// interpolated from its neighbours; here that is their mean, half to even, where VBench asks a network. A still clip
// has 1.

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

// Card: the warping error of Lai et al., "Learning blind video temporal consistency" (2018): the
// mean squared difference, colours in 0..1, of a frame and the next one warped to it, over
// pixels that are not occluded. Occluded are those where going there and back does not lead
// home, |back + there|^2 > 0.01(|back|^2 + |there|^2) + 0.5, and edges of motion, |gradient|^2 >
// 0.01|there|^2 + 0.002. Where all are occluded the sum, which is 0, is taken over all. A still
// clip has 0, so low is not good by itself.

// Warp is the error of each pair of frames, and which share of pixels it was taken over.
type Warp struct {
	Errors, Visible []float64
	Mean            float64
}

// Warp measures a clip.
func (s *Steps) Warp() (w Warp) {
	for _, p := range s.all {
		w.Errors, w.Visible = append(w.Errors, p.warp), append(w.Visible, p.seen)
	}
	w.Mean = mean(w.Errors)
	return w
}

// returns reports whether the way back, at the four corners where pixel i goes, leads home.
func returns(there, back *video.Field, i int, at [4]int, w [4]float64) bool {
	x, y := float64(there.X[i]), float64(there.Y[i])
	bx, by := mix(back.X, at, w, 1, 0), mix(back.Y, at, w, 1, 0)
	off := float64((bx+x)*(bx+x)) + float64((by+y)*(by+y))
	long := float64(bx*bx) + float64(by*by) + (float64(x*x) + float64(y*y))
	return off <= float64(0.01*long)+0.5
}

// edge reports whether motion changes from a pixel to the right or downwards.
func edge(f *video.Field, px, py int) bool {
	i, sum := py*f.Width+px, 0.0
	if px+1 < f.Width {
		sum += change(f, i, i+1)
	}
	if py+1 < f.Height {
		sum += change(f, i, i+f.Width)
	}
	x, y := float64(f.X[i]), float64(f.Y[i])
	return sum > float64(0.01*squared(x, y))+0.002
}

func change(f *video.Field, i, j int) float64 {
	return squared(float64(f.X[i])-float64(f.X[j]), float64(f.Y[i])-float64(f.Y[j]))
}
