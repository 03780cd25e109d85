package motion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/video"
)

// A Flow finds motion between two frames of a clip: flow.DIS and flow.Farneback do.
type Flow interface {
	Between(c *video.Clip, from, to int) (*video.Field, error)
}

// Motion is a clip with its flow from each frame to the next, and back.
type Motion struct {
	Clip              *video.Clip
	Forward, Backward []*video.Field
}

// ErrShort: one frame does not move.
var ErrShort = errors.New("a clip of one frame has no motion: two or more are needed")

// Of finds the flow of a clip, unless ctx ends first.
func Of(ctx context.Context, c *video.Clip, f Flow) (*Motion, error) {
	m := &Motion{Clip: c}
	err := pairs(ctx, c, f, func(there, back *video.Field) error {
		m.Forward, m.Backward = append(m.Forward, there), append(m.Backward, back)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return m, m.Check()
}

// pairs finds the flow from each frame to the next, and back.
func pairs(ctx context.Context, c *video.Clip, f Flow, take func(there, back *video.Field) error) error {
	if err := c.Check(); err != nil {
		return err
	}
	for i := range len(c.Frames) - 1 {
		if err := ctx.Err(); err != nil {
			return err
		}
		there, err := f.Between(c, i, i+1)
		if err != nil {
			return fmt.Errorf("from frame %d to %d: %w", i, i+1, err)
		}
		back, err := f.Between(c, i+1, i)
		if err != nil {
			return fmt.Errorf("from frame %d to %d: %w", i+1, i, err)
		}
		if err := take(there, back); err != nil {
			return err
		}
	}
	return nil
}

// Check refuses flow that does not belong to the clip.
func (m *Motion) Check() error {
	if err := m.Clip.Check(); err != nil {
		return err
	}
	n := len(m.Clip.Frames) - 1
	if n < 1 {
		return ErrShort
	}
	if len(m.Forward) != n || len(m.Backward) != n {
		return fmt.Errorf("%d and %d fields of motion for %d frames: one fewer than frames are needed", len(m.Forward), len(m.Backward), n+1)
	}
	for i := range n {
		if err := belongs(m.Clip, i, m.Forward[i], m.Backward[i]); err != nil {
			return err
		}
	}
	return nil
}

// belongs refuses flow of pair i that is not of the clip's size.
func belongs(c *video.Clip, i int, fields ...*video.Field) error {
	for _, f := range fields {
		if err := f.Check(); err != nil {
			return fmt.Errorf("motion %d: %w", i, err)
		}
		if f.Width != c.Width || f.Height != c.Height {
			return fmt.Errorf("motion %d is %d x %d, the clip %d x %d", i, f.Width, f.Height, c.Width, c.Height)
		}
	}
	return nil
}

// corners are the four pixels around where a flow leads the pixel at (px, py), indices clamped to the frame, and their
// weights. ok is false where the flow is NaN.
func corners(f *video.Field, px, py int, sign float64) (at [4]int, w [4]float64, ok bool) {
	i := py*f.Width + px
	x, y := float64(px)+float64(sign*float64(f.X[i])), float64(py)+float64(sign*float64(f.Y[i]))
	if !(math.Abs(x) < 1<<30 && math.Abs(y) < 1<<30) {
		return at, w, false
	}
	x0, y0 := math.Floor(x), math.Floor(y)
	a, b := x-x0, y-y0
	clamp := func(v float64, n int) int { return min(max(int(v), 0), n-1) }
	l, r := clamp(x0, f.Width), clamp(x0+1, f.Width)
	u, d := clamp(y0, f.Height)*f.Width, clamp(y0+1, f.Height)*f.Width
	return [4]int{u + l, u + r, d + l, d + r}, [4]float64{(1 - a) * (1 - b), a * (1 - b), (1 - a) * b, a * b}, true
}

// mix is the weighted sum of four numbers, which at names.
func mix[T uint8 | float32](from []T, at [4]int, w [4]float64, channels, channel int) float64 {
	sum := 0.0
	for k, i := range at {
		sum += float64(w[k] * float64(from[channels*i+channel]))
	}
	return sum
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// Card: VBench's dynamic degree. For each pair of frames, the mean length of the longest 5 %
// of motion; the clip moves if round(4 n/16) pairs of n frames, half to even, exceed
// 6 min(height, width)/256. VBench thins frames to about 8 a second first (video.Thinned) and
// takes RAFT's flow. With few frames no pair is needed, and any clip moves. Noise, cuts and
// brightness that goes up and down count as motion: see Quality.

// Dynamic is VBench's result for a clip.
type Dynamic struct {
	Top       []float64 // of each pair, the mean of the longest 5 %
	Threshold float64
	Needed    int
	Moves     bool
}

// Dynamic measures a clip by its forward motion.
func (s *Steps) Dynamic() (Dynamic, error) {
	d := Dynamic{Threshold: s.threshold(), Needed: int(math.RoundToEven(4 * (float64(len(s.all)+1) / 16)))}
	count := 0
	for _, p := range s.all {
		if math.IsNaN(p.top) {
			return d, errors.New("a twentieth of such small frames is no pixel: dynamic degree needs 20 or more")
		}
		d.Top = append(d.Top, p.top)
		if p.top > d.Threshold {
			count++
		}
		d.Moves = d.Moves || count >= d.Needed
	}
	return d, nil
}

func threshold(width, height int) float64 { return 6 * (float64(min(width, height)) / 256) }

// greatest are the n greatest numbers, which it leaves at the end of x in order.
func greatest(x []float64, n int) []float64 {
	first := len(x) - n
	place(x, first)
	slices.Sort(x[first:])
	return x[first:]
}

// place moves x[first] to where a sort would, smaller numbers before it and greater ones behind.
func place(x []float64, first int) {
	at, end := 0, len(x)
	for end-at > 64 { // everything below at <= everything within <= everything from end on
		pivot, low, high := x[at+(end-at)/2], at, end-1
		for low <= high {
			for cmp.Less(x[low], pivot) {
				low++
			}
			for cmp.Less(pivot, x[high]) {
				high--
			}
			if low <= high {
				x[low], x[high] = x[high], x[low]
				low, high = low+1, high-1
			}
		}
		switch {
		case first <= high:
			end = high + 1
		case first >= low:
			at = low
		default:
			at, end = first, first
		}
	}
	slices.Sort(x[at:end])
}

// Card: whether the moving parts go in the wanted direction, at the wanted speed. For each pair of frames
//
//	v          the mean flow of the moving pixels, which are those whose flow returns and is at least half as long as
//	           the longest 5 % are
//	agreement  max(0, 1 - |v - asked| / |asked|)
//
// Where a direction w alone is asked for, with s = 1.5·min(height, width)/256
//
//	agreement  max(0, v·w/|v||w|) · min(1, |v|/s)
//
// and where a speed |asked| alone is
//
//	agreement  max(0, 1 - ||v| - |asked||/|asked|)
//
// Where several motions are asked for, the pairs are shared out among them in order, and steadiness is not asked for
// where one follows another.
//
// and the value is the mean over pairs of agreement·explained·visible·steady, the last three as of Quality: a flow that
// frames do not bear out (noise, cuts, a flash) earns nothing.
// Invariants (tests): the motion that was asked for is near 1, its opposite, rest and another axis 0; half the speed
// earns about half; noise and cuts nothing.

// Heading compares a clip's motion with the wanted one.
type Heading struct {
	Value, Agreement float64
	X, Y             float64 // the mean motion, pixels a frame
}

// Heading compares the clip's motion with those that were asked for, one after another, in pixels a frame.
func (s *Steps) Heading(legs ...[2]float64) Heading {
	return s.heading(legs, func(x, y float64, asked [2]float64) float64 {
		return max(0, 1-math.Sqrt(squared(x-asked[0], y-asked[1]))/math.Sqrt(squared(asked[0], asked[1])))
	})
}

// Speed compares the lengths of the clip's motion with those that were asked for, one after another, wherever it goes.
func (s *Steps) Speed(legs ...[2]float64) Heading {
	return s.heading(legs, func(x, y float64, asked [2]float64) float64 {
		long := math.Sqrt(squared(asked[0], asked[1]))
		return max(0, 1-math.Abs(math.Sqrt(squared(x, y))-long)/long)
	})
}

// Direction compares the clip's motion with directions that were asked for, one after another, at any speed.
func (s *Steps) Direction(ways ...[2]float64) Heading {
	least := s.threshold() / 4
	return s.heading(ways, func(x, y float64, asked [2]float64) float64 {
		long := math.Sqrt(squared(x, y))
		if long == 0 {
			return 0
		}
		along := (float64(x*asked[0]) + float64(y*asked[1])) / math.Sqrt(squared(asked[0], asked[1]))
		return max(0, along) / long * min(1, long/least)
	})
}

func (s *Steps) heading(legs [][2]float64, agrees func(x, y float64, asked [2]float64) float64) (h Heading) {
	n, steady := float64(len(s.all)), s.steadiness(len(legs))
	for t, p := range s.all {
		agreement := agrees(p.x, p.y, legs[s.leg(t, len(legs))])
		h.X, h.Y, h.Agreement = h.X+p.x/n, h.Y+p.y/n, h.Agreement+agreement/n
		h.Value += agreement * p.explained * p.visible * steady[t] / n
	}
	return h
}

// squared is a motion's squared length.
func squared(x, y float64) float64 { return float64(x*x) + float64(y*y) }
