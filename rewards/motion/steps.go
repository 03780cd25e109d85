package motion

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/video"
)

// Steps are the numbers of a clip's flow that measures read, a few for each frame and the next. Steps alone
// are kept of a clip, whose fields take five times the bytes of its frames, and measures of one clip share them.
type Steps struct {
	width, height int
	all           []step
}

// step is a pair of frames. quality.go, camera.go and stability.go have the formulas.
type step struct {
	mean, median, top          float64 // lengths of the flow; top is the mean of the longest 5 %
	x, y                       float64 // the mean flow of the moving pixels
	amount, explained, visible float64
	follows                    float64 // how far the next pair's flow goes on with this one's; of the last pair: 1
	camera                     Camera
	square, share              float64 // the mean square of the flow, and the camera's share of it
	warp, seen                 float64 // the warping error, and the share of pixels that it is taken over
}

// StepsOf finds the flow of a clip, unless ctx ends first, and keeps the fields of two pairs at most.
func StepsOf(ctx context.Context, c *video.Clip, f Flow) (*Steps, error) {
	s := &Steps{width: c.Width, height: c.Height}
	var before *video.Field
	err := pairs(ctx, c, f, func(there, back *video.Field) error {
		if err := belongs(c, len(s.all), there, back); err != nil {
			return err
		}
		s.add(c, before, there, back)
		before = there
		return nil
	})
	if err == nil && len(s.all) == 0 {
		err = ErrShort
	}
	return s, err
}

// Steps are those of a motion.
func (m *Motion) Steps() (*Steps, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	s := &Steps{width: m.Clip.Width, height: m.Clip.Height}
	for t, there := range m.Forward {
		var before *video.Field
		if t > 0 {
			before = m.Forward[t-1]
		}
		s.add(m.Clip, before, there, m.Backward[t])
	}
	return s, nil
}

func (s *Steps) threshold() float64 { return threshold(s.width, s.height) }

// Magnitudes are the mean lengths of motion from each frame to the next.
func (s *Steps) Magnitudes() []float64 {
	out := make([]float64, len(s.all))
	for t, p := range s.all {
		out[t] = p.mean
	}
	return out
}

// add appends the next pair.
func (s *Steps) add(c *video.Clip, before, there, back *video.Field) {
	t := len(s.all)
	if before != nil {
		s.all[t-1].follows = agreement(before, there)
	}
	s.all = append(s.all, stepOf(c.Frames[t], c.Frames[t+1], there, back))
}

// stepOf measures a pair of frames by the flow there and back.
func stepOf(from, to []uint8, there, back *video.Field) step {
	s := step{follows: 1}
	n := len(there.X)
	lengths := make([]float64, n)
	for i := range lengths {
		lengths[i] = there.Length(i)
		s.mean += lengths[i]
	}
	s.mean /= float64(n)
	sorted := slices.Clone(lengths)
	s.top = mean(greatest(sorted, int(float64(n)*0.05)))
	place(sorted, n/2)
	s.median = sorted[n/2]

	home := make([]bool, n)
	var moving, atHome, seen int
	var right, still, wrong, warp squares
	for i := range home {
		px, py := i%there.Width, i/there.Width
		at, w, ok := corners(there, px, py, 1)
		if !ok || !returns(there, back, i, at, w) {
			continue
		}
		if s.top > 0 && lengths[i] >= s.top/2 {
			s.x, s.y, moving = s.x+float64(there.X[i]), s.y+float64(there.Y[i]), moving+1
		}
		visible := !edge(there, px, py)
		if home[i] = stays(there, px, py); home[i] {
			atHome++
			still.add(from[3*i:], [3]float64{float64(to[3*i]), float64(to[3*i+1]), float64(to[3*i+2])})
			if at, w, ok := corners(there, px, py, -1); ok {
				wrong.add(from[3*i:], colour(to, at, w))
			}
		}
		if !home[i] && !visible {
			continue
		}
		moved := colour(to, at, w)
		if home[i] {
			right.add(from[3*i:], moved)
		}
		if visible {
			seen++
			for k, v := range moved {
				d := v/255 - float64(from[3*i+k])/255
				warp.all += float64(d * d)
			}
		}
	}
	if moving > 0 {
		s.x, s.y = s.x/float64(moving), s.y/float64(moving)
	}
	s.warp, s.seen = warp.all/float64(3*cmp.Or(seen, n)), float64(seen)/float64(n)
	s.visible = float64(atHome) / float64(n)
	s.camera, s.square, s.share = cameraOf(there, home)
	if !math.IsNaN(s.top) && atHome > 0 {
		s.amount = min(s.top/threshold(there.Width, there.Height), 1)
		s.explained = max(1-(right.mean()+doubt)/(min(still.mean(), wrong.mean())+doubt), 0)
	}
	return s
}

// squares adds up squared differences of colours, in levels.
type squares struct {
	all float64
	n   int
}

func (s *squares) add(from []uint8, colour [3]float64) {
	for k, v := range colour {
		d := v - float64(from[k])
		s.all += float64(d * d)
	}
	s.n += 3
}

func (s *squares) mean() float64 { return s.all / float64(max(s.n, 1)) }

// colour is that between four pixels.
func colour(of []uint8, at [4]int, w [4]float64) (c [3]float64) {
	for k := range c {
		c[k] = mix(of, at, w, 3, k)
	}
	return c
}

// leg is which of some equal parts of the clip pair t belongs to.
func (s *Steps) leg(t, legs int) int { return t * legs / len(s.all) }

// steadiness compares the flow of every pair with those before and after in its leg, along the path; the worse
// counts. A leg of one pair is steady.
func (s *Steps) steadiness(legs int) []float64 {
	steady := slices.Repeat([]float64{1}, len(s.all))
	for t, p := range s.all[:len(s.all)-1] {
		if s.leg(t, legs) == s.leg(t+1, legs) {
			steady[t], steady[t+1] = min(steady[t], p.follows), min(steady[t+1], p.follows)
		}
	}
	return steady
}

func agreement(before, after *video.Field) float64 {
	change, long := 0.0, 0.0
	for i := range before.X {
		at, w, ok := corners(before, i%before.Width, i/before.Width, 1)
		if !ok {
			return 0
		}
		x, y := mix(after.X, at, w, 1, 0), mix(after.Y, at, w, 1, 0)
		change += math.Sqrt(squared(x-float64(before.X[i]), y-float64(before.Y[i])))
		long += before.Length(i) + math.Sqrt(squared(x, y))
	}
	if long == 0 {
		return 1
	}
	return max(1-change/long, 0)
}
