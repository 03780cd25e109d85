package gemm

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
)

// gather lays the values under each output pixel beside each other and packs them.
func (c *convolution) gather(s *arena, sample, y0, rows int) {
	a, size := c.conv, c.conv.X.DType.Size()
	raw := unsafe.Slice((*byte)(s.get(partSample)), rows*c.ow*c.k*size)
	for r := range rows {
		gatherWindows(raw[r*c.ow*c.k*size:], a, sample+c.n0, y0+r, 0, a.Shape.KH, c.ow)
	}
	from := operand{p: s.get(partSample), dtype: a.X.DType, size: size, stride: c.k * size}
	at := 0
	for dy := range a.Shape.KH {
		c.u.packA(s.get(partA), s.get(partTmp), c.rowBytes, from, 0, rows*c.ow, dy*c.row, c.row, at)
		at += roundUp(c.row, c.u.step())
	}
}

// gatherWindows is what lies under each pixel of an output row, window rows dy0 to
// dy1-1, in X's type, zeros outside the picture.
func gatherWindows(dst []byte, a *kernels.Conv, sample, y, dy0, dy1, ow int) {
	s, size := a.Shape, a.X.DType.Size()
	pixel := s.In * size
	x := a.X.Raw()
	at := 0
	for i := range ow {
		left := i*s.Stride - s.Left
		lo, hi := max(0, -left), max(0, min(s.KW, a.W-left)) // dx inside the picture
		for dy := dy0; dy < dy1; dy++ {
			part := dst[at : at+s.KW*pixel]
			at += len(part)
			in := y*s.Stride - s.Top + dy
			if in < 0 || in >= a.H || lo >= hi {
				clear(part)
				continue
			}
			clear(part[:lo*pixel])
			clear(part[hi*pixel:])
			from := ((sample*a.H+in)*a.W + left + lo) * pixel
			copy(part[lo*pixel:hi*pixel], x[from:from+(hi-lo)*pixel])
		}
	}
}
