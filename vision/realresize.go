package vision

import (
	"fmt"
	"math"
)

// Card: resizing without rounding, as torch.nn.functional.interpolate does it to numbers.
// Anti-aliased: the weights of filter.go (bicubic a = -1/2). Plain: two or four taps at
// (i + 1/2) s - 1/2, places beyond the edge taken at the edge, bicubic a = -3/4. Nothing is
// clamped, so bicubic overshoots. The map is linear; Backward is its transpose, which reward
// gradients go through. Sums are float64, whatever the numbers are. Held to image.resize_tensor
// and vlm.resize_float; the transpose to <Forward x, y> = <x, Backward y>.

// A RealResize maps pictures of one size to another, channels last.
type RealResize struct {
	fromWidth, fromHeight int
	columns, rows         []taps
}

// NewRealResize prepares a resizing. Filter is any but Nearest; without antialias it is
// Bilinear or Bicubic.
func NewRealResize(fromWidth, fromHeight, width, height int, f Filter, antialias bool) (*RealResize, error) {
	for _, size := range [][2]int{{fromWidth, fromHeight}, {width, height}} {
		if err := checkSize(size[0], size[1]); err != nil {
			return nil, fmt.Errorf("resizing: %w", err)
		}
	}
	axis := func(size, n int) []taps { return f.tapsOf(size, 0, float32(size), n) }
	switch {
	case f <= Nearest || f > Lanczos:
		return nil, fmt.Errorf("resizing numbers with %v: one of %v is needed", f, filterNames[1:])
	case !antialias && f != Bilinear && f != Bicubic:
		return nil, fmt.Errorf("resizing with %v without anti-aliasing: bilinear or bicubic is needed", f)
	case !antialias:
		axis = func(size, n int) []taps { return plainTaps(size, n, f) }
	}
	return &RealResize{fromWidth, fromHeight, axis(fromWidth, width), axis(fromHeight, height)}, nil
}

// plainTaps do not widen when the picture shrinks.
func plainTaps(size, n int, f Filter) []taps {
	all := make([]taps, n)
	for i := range all {
		at := float64((float64(i)+0.5)*(float64(size)/float64(n))) - 0.5
		var w []float64
		from := 0
		if f == Bilinear {
			at = max(at, 0)
			from = int(at)
			t := at - float64(from)
			w = []float64{1 - t, t}
		} else {
			base := math.Floor(at)
			t := at - base
			from = int(base) - 1
			w = []float64{keys(1+t, -0.75), keys(t, -0.75), keys(1-t, -0.75), keys(2-t, -0.75)}
		}
		all[i] = atEdge(from, w, size)
	}
	return all
}

// atEdge adds the weights of places beyond the edge to the edge's.
func atEdge(from int, w []float64, size int) taps {
	first := min(max(from, 0), size-1)
	last := min(max(from+len(w)-1, 0), size-1)
	out := make([]float64, last-first+1)
	for j, v := range w {
		out[min(max(from+j, 0), size-1)-first] += v
	}
	return taps{first, out}
}

// Forward resizes [H, W, channels] numbers.
func (z *RealResize) Forward(x []float64, channels int) []float64 {
	wide := len(z.columns) * channels
	middle := make([]float64, z.fromHeight*wide)
	for y := range z.fromHeight {
		from := x[y*z.fromWidth*channels:]
		for i, t := range z.columns {
			to := middle[y*wide+i*channels:][:channels]
			for j, w := range t.weights {
				for c := range to {
					to[c] += float64(w * from[(t.first+j)*channels+c])
				}
			}
		}
	}
	out := make([]float64, len(z.rows)*wide)
	for i, t := range z.rows {
		to := out[i*wide:][:wide]
		for j, w := range t.weights {
			from := middle[(t.first+j)*wide:][:wide]
			for k := range to {
				to[k] += float64(w * from[k])
			}
		}
	}
	return out
}

// Backward takes the gradient at Forward's result to the gradient at its operand.
func (z *RealResize) Backward(g []float64, channels int) []float64 {
	wide := len(z.columns) * channels
	middle := make([]float64, z.fromHeight*wide)
	for i, t := range z.rows {
		from := g[i*wide:][:wide]
		for j, w := range t.weights {
			to := middle[(t.first+j)*wide:][:wide]
			for k := range to {
				to[k] += float64(w * from[k])
			}
		}
	}
	out := make([]float64, z.fromHeight*z.fromWidth*channels)
	for y := range z.fromHeight {
		to := out[y*z.fromWidth*channels:]
		for i, t := range z.columns {
			from := middle[y*wide+i*channels:][:channels]
			for j, w := range t.weights {
				for c := range from {
					to[(t.first+j)*channels+c] += float64(w * from[c])
				}
			}
		}
	}
	return out
}
