package rewards

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/video"
)

// Card: whether a thing falls, is thrown and bounces as a ball does. The thing is the pixels that differ from the
// ground, the median of each pixel over all frames: the thing must leave every place for half of the clip. Of its
// middle (x, y), y downwards, second differences over frames are accelerations:
//
//	g          the median of those of y, of frames that are neither at a bounce nor at rest
//	at a frame 1 where the thing rests on its lowest place; at a bounce 1, and otherwise max(0, 1 - |a - g|/g), in both
//	           cases times max(0, 1 - |acceleration of x|/g); a fifth of a pixel, the error of places, is forgiven
//	bounce     downwards before and up after, at the lowest place that the thing reaches
//	energy     the least over bounces of min(1, E before/E after)², with E = v²/2 + g·(height above the lowest place): a
//	           bounce gives no speed
//	whole      the share of frames in which the thing has its usual area, within two fifths; 0 where that is more than a
//	           quarter of the frame
//
// and the value is energy · whole · the mean over frames, 0 where g is less than side/1000 pixels or points upwards.
// Invariants (tests): falls, throws and bounces that lose speed are near 1, at any speed and side; rest, steady motion,
// a fall upwards, a thing that floats, leaps and jolts, a bounce that gains speed and frames in any order are worse, as
// are noise and cuts.

// Ball judges a clip of one falling thing.
type Ball struct{}

// errNoThing is why a clip has no ball.
var errNoThing = errors.New("the clip shows no thing before a ground: one that moves before a still ground is needed, in five frames or more")

// Score judges a clip.
func (Ball) Score(_ context.Context, item Item) (Score, error) {
	if item.Clip == nil {
		return Score{}, errNoClip
	}
	if err := item.Clip.Check(); err != nil {
		return Score{}, err
	}
	if len(item.Clip.Frames) < 5 {
		return Score{}, errNoThing
	}
	path, whole := trackOf(item.Clip)
	if whole == 0 {
		return Score{Parts: map[string]float64{"gravity": 0, "energy": 0, "whole": 0, "free": 0}}, nil
	}
	f := path.fall(float64(min(item.Clip.Width, item.Clip.Height)))
	s := Score{Value: f.energy * whole * f.free, Parts: map[string]float64{"gravity": f.gravity, "energy": f.energy, "whole": whole, "free": f.free}}
	s.Because("fall", "it falls %.2f pixels a frame faster from frame to frame; %.0f %% of its way is free fall, rest or a bounce", f.gravity, 100*f.free)
	return s, nil
}

// path is the place of a thing in each frame.
type path [][2]float64

// differs is by how many levels a pixel of the thing differs from the ground, at least.
const differs = 30

// fine is the error of a second difference of places, in pixels.
const fine = 0.2

// trackOf follows the thing of a clip, and returns the share of frames that have all of it; where a frame has nothing,
// it stays at its last place.
func trackOf(c *video.Clip) (p path, whole float64) {
	n := len(c.Frames[0])
	ground, levels := make([]uint8, n), make([]uint8, len(c.Frames))
	for i := range n {
		for t, f := range c.Frames {
			levels[t] = f[i]
		}
		slices.Sort(levels)
		ground[i] = levels[len(levels)/2]
	}
	var areas []float64
	at := [2]float64{}
	for _, f := range c.Frames {
		var x, y, area float64
		for i := 0; i < n; i += 3 {
			d := 0
			for k := i; k < i+3; k++ {
				d = max(d, int(f[k])-int(ground[k]), int(ground[k])-int(f[k]))
			}
			if d >= differs {
				x, y, area = x+float64(i/3%c.Width), y+float64(i/3/c.Width), area+1
			}
		}
		if area > 0 {
			at = [2]float64{x / area, y / area}
		}
		p, areas = append(p, at), append(areas, area)
	}
	sorted := slices.Clone(areas)
	slices.Sort(sorted)
	usual := sorted[len(sorted)/2]
	if usual == 0 || usual > float64(n)/3/4 {
		return p, 0
	}
	for _, a := range areas {
		if math.Abs(a-usual) <= 0.4*usual {
			whole += 1 / float64(len(areas))
		}
	}
	return p, whole
}

// fall is a way's likeness to that of a ball.
type fall struct{ gravity, energy, free float64 }

// fall judges a way in frames of this side. A bounce lies between frames, so that it spoils two accelerations.
func (p path) fall(side float64) (f fall) {
	speed := func(t int) float64 { return p[t+1][1] - p[t][1] } // from frame t on
	lowest := p[0][1]
	for _, at := range p {
		lowest = max(lowest, at[1])
	}
	exempt := make([]bool, len(p)) // at a bounce, or at rest
	var bounces []int              // frames before them
	var free []float64
	for t := 1; t+1 < len(p); t++ {
		before, now := speed(t-1), speed(t)
		if t+2 < len(p) && before > 0 && now < before-side/500 && max(p[t][1], p[t+1][1]) >= lowest-side/50 && !exempt[t] {
			if after := min(now, speed(t+1)); after < 0 {
				bounces = append(bounces, t)
				exempt[t], exempt[t+1] = true, true
			}
		}
		if p[t][1] >= lowest-side/100 && math.Abs(before) < side/200 && math.Abs(now) < side/200 {
			exempt[t] = true
		}
		if !exempt[t] {
			free = append(free, now-before)
		}
	}
	if len(free) == 0 {
		return f
	}
	slices.Sort(free)
	if f.gravity = free[len(free)/2]; f.gravity < side/1000 {
		return f
	}
	f.energy = 1
	energy := func(t int) float64 { // between frames t and t+1, above the lowest place
		v, height := speed(t), float64((p[t][1]+p[t+1][1])/2)
		return float64(v*v/2) + float64(f.gravity*(lowest-height))
	}
	for _, t := range bounces {
		share := energy(t-1) / energy(t+1)
		f.energy = min(f.energy, share*share)
	}
	kept := func(off float64) float64 { return min(1, max(0, 1-(math.Abs(off)-fine)/f.gravity)) }
	for t := 1; t+1 < len(p); t++ {
		level := 1.0
		if !exempt[t] {
			level = kept(speed(t) - speed(t-1) - f.gravity)
		}
		sideways := p[t+1][0] - 2*p[t][0] + p[t-1][0]
		f.free += level * kept(sideways) / float64(len(p)-2)
	}
	return f
}

// BallKind is reward ball.
var BallKind = Kind{
	Name:   "ball",
	Card:   "Whether the thing of a clip falls, flies and bounces as a ball does, before a still ground: one acceleration downwards, and no speed from a bounce.",
	Paper:  "Darkroom, Newton's second law",
	Parts:  []string{"gravity", "energy", "whole", "free"},
	Judges: Clips,
	Bounds: Unit,
	Open:   Plain(Ball{}),
}
