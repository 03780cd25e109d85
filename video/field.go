package video

import (
	"fmt"
	"math"
)

// A Field is motion between two frames: the point at (x, y) in the first is found at
// (x + X[i], y + Y[i]) in the second, with i = y Width + x.
type Field struct {
	Width, Height int
	X, Y          []float32
}

// NewField is a field without motion.
func NewField(width, height int) *Field {
	return &Field{width, height, make([]float32, width*height), make([]float32, width*height)}
}

// Check refuses an invalid field.
func (f *Field) Check() error {
	if f == nil || f.Width <= 0 || f.Height <= 0 || f.Width > maxSide || f.Height > maxSide {
		return fmt.Errorf("a field of motion without pixels")
	}
	if n := f.Width * f.Height; len(f.X) != n || len(f.Y) != n {
		return fmt.Errorf("a field of %d x %d with %d and %d numbers", f.Width, f.Height, len(f.X), len(f.Y))
	}
	return nil
}

// Length is how far pixel i moves.
func (f *Field) Length(i int) float64 {
	x, y := float64(f.X[i]), float64(f.Y[i])
	return math.Sqrt(float64(x*x) + float64(y*y))
}

// Luma is a frame's gray, (9798 R + 19235 G + 3735 B + 2^14) >> 15, as OpenCV computes it.
func (c *Clip) Luma(frame int) []uint8 {
	f := c.Frames[frame]
	gray := make([]uint8, len(f)/3)
	for i := range gray {
		p := f[3*i : 3*i+3]
		gray[i] = uint8((9798*uint32(p[0]) + 19235*uint32(p[1]) + 3735*uint32(p[2]) + 1<<14) >> 15)
	}
	return gray
}
