package flow

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/video"
)

// Gray is a frame without colours, a byte a pixel.
type Gray struct {
	Width, Height int
	Pix           []uint8
}

// largest is the most pixels that a frame may have: memory is about 100 bytes a pixel.
const largest = 1 << 25

func checkPair(a, b Gray) error {
	switch {
	case a.Width <= 0 || a.Height <= 0 || a.Width > largest || a.Height > largest || a.Width*a.Height > largest:
		return fmt.Errorf("flow of frames of %d x %d pixels: at least one, and at most %d are possible", a.Width, a.Height, largest)
	case a.Width != b.Width || a.Height != b.Height:
		return fmt.Errorf("flow from %d x %d to %d x %d pixels: frames must have one size", a.Width, a.Height, b.Width, b.Height)
	case len(a.Pix) != a.Width*a.Height || len(b.Pix) != len(a.Pix):
		return fmt.Errorf("frames of %d x %d with %d and %d bytes", a.Width, a.Height, len(a.Pix), len(b.Pix))
	}
	return nil
}

// pair takes two frames of a clip.
func pair(c *video.Clip, from, to int) (a, b Gray, err error) {
	if err := c.Check(); err != nil {
		return a, b, err
	}
	for _, i := range []int{from, to} {
		if i < 0 || i >= len(c.Frames) {
			return a, b, fmt.Errorf("frame %d of a clip of %d", i, len(c.Frames))
		}
	}
	return Gray{c.Width, c.Height, c.Luma(from)}, Gray{c.Width, c.Height, c.Luma(to)}, nil
}
