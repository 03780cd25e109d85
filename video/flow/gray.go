package flow

import (
	"fmt"
	"math"

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

// Card: OpenCV's INTER_AREA of bytes. A pixel is the mean of the area that it covers: for halves
// (sum + 2) >> 2, for other whole factors the fp32 mean, for the rest fp32 sums of parts, both
// rounded half to even.

func shrink(g Gray, width, height int) Gray {
	if width == g.Width && height == g.Height {
		return g
	}
	out := Gray{width, height, make([]uint8, width*height)}
	switch {
	case g.Width == 2*width && g.Height == 2*height:
		for y := range height {
			up, down := g.Pix[2*y*g.Width:][:2*width], g.Pix[(2*y+1)*g.Width:][:2*width]
			for x := range width {
				out.Pix[y*width+x] = uint8((int(up[2*x]) + int(up[2*x+1]) + int(down[2*x]) + int(down[2*x+1]) + 2) >> 2)
			}
		}
	case width > 0 && height > 0 && g.Width%width == 0 && g.Height%height == 0:
		out.mean(g)
	default:
		out.parts(g)
	}
	return out
}

// mean is for whole factors.
func (out Gray) mean(g Gray) {
	across, down := g.Width/out.Width, g.Height/out.Height
	scale := 1 / float32(across*down)
	for y := range out.Height {
		for x := range out.Width {
			sum := 0
			for v := range down {
				for _, p := range g.Pix[(y*down+v)*g.Width+x*across:][:across] {
					sum += int(p)
				}
			}
			out.Pix[y*out.Width+x] = byteOf(float32(sum) * scale)
		}
	}
}

// parts is for all others.
func (out Gray) parts(g Gray) {
	columns, rows := sharesOf(g.Width, out.Width), sharesOf(g.Height, out.Height)
	row, sum := make([]float32, out.Width), make([]float32, out.Width)
	for y := range out.Height {
		clear(sum)
		for _, v := range rows[y] {
			from := g.Pix[v.i*g.Width:][:g.Width]
			for x := range row {
				s := float32(0)
				for _, c := range columns[x] {
					s += float32(float32(from[c.i]) * c.w)
				}
				sum[x] += float32(s * v.w)
			}
		}
		for x, s := range sum {
			out.Pix[y*out.Width+x] = byteOf(s)
		}
	}
}

func byteOf(x float32) uint8 { return uint8(min(max(math.RoundToEven(float64(x)), 0), 255)) }

// share is a part of a pixel, whose weights add up to one.
type share struct {
	i int
	w float32
}

// sharesOf are the parts of size pixels that each of n covers.
func sharesOf(size, n int) [][]share {
	all := make([][]share, n)
	scale := 1 / (float64(n) / float64(size))
	for x := range all {
		from := float64(float64(x) * scale)
		to := from + scale
		cell := min(scale, float64(size)-from)
		last := min(int(math.Floor(to)), size-1)
		first := min(int(math.Ceil(from)), last)
		if part := float64(first) - from; part > 1e-3 {
			all[x] = append(all[x], share{first - 1, float32(part / cell)})
		}
		for i := first; i < last; i++ {
			all[x] = append(all[x], share{i, float32(1 / cell)})
		}
		if part := to - float64(last); part > 1e-3 {
			all[x] = append(all[x], share{last, float32(min(part, 1, cell) / cell)})
		}
	}
	return all
}
