package motion

import (
	"context"
	"errors"
	"fmt"
	"math"

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
	if err := c.Check(); err != nil {
		return nil, err
	}
	m := &Motion{Clip: c}
	for i := range len(c.Frames) - 1 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		there, err := f.Between(c, i, i+1)
		if err != nil {
			return nil, fmt.Errorf("from frame %d to %d: %w", i, i+1, err)
		}
		back, err := f.Between(c, i+1, i)
		if err != nil {
			return nil, fmt.Errorf("from frame %d to %d: %w", i+1, i, err)
		}
		m.Forward, m.Backward = append(m.Forward, there), append(m.Backward, back)
	}
	return m, m.Check()
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
		for _, f := range []*video.Field{m.Forward[i], m.Backward[i]} {
			if err := f.Check(); err != nil {
				return fmt.Errorf("motion %d: %w", i, err)
			}
			if f.Width != m.Clip.Width || f.Height != m.Clip.Height {
				return fmt.Errorf("motion %d is %d x %d, the clip %d x %d", i, f.Width, f.Height, m.Clip.Width, m.Clip.Height)
			}
		}
	}
	return nil
}

// Magnitudes are the mean lengths of motion from each frame to the next.
func (m *Motion) Magnitudes() []float64 {
	out := make([]float64, len(m.Forward))
	for t, f := range m.Forward {
		for i := range f.X {
			out[t] += f.Length(i)
		}
		out[t] /= float64(len(f.X))
	}
	return out
}

// corners are the four pixels around where a flow leads pixel i, indices clamped to the frame,
// and their weights. ok is false where the flow is no number.
func corners(f *video.Field, i int, sign float64) (at [4]int, w [4]float64, ok bool) {
	x, y := float64(i%f.Width)+float64(sign*float64(f.X[i])), float64(i/f.Width)+float64(sign*float64(f.Y[i]))
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
