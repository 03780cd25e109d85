package vision

import (
	"fmt"
	"math"
)

// Card: a pipeline for numbers, whose gradient is wanted: resizing without rounding, the crop or the border, (x -
// mean) / std. It is affine, so Backward is a constant matrix's transpose, and takes a reward's gradient at the
// tower's input to the gradient at the picture. It differs from the pipeline for bytes by their roundings: a reward's
// value comes from bytes, its gradient through here. Invariant (tests): Backward agrees with differences of Forward.

// Pixels are a picture's numbers, [Height, Width, 3] in 0..1, before they become bytes.
type Pixels struct {
	Width, Height int
	RGB           []float32
}

// A Soft is a pipeline for pictures of one size.
type Soft struct {
	placed placed
	Preprocess
}

// Soft prepares the pipeline for pictures of a size, as numbers whatever p.Arithmetic says.
func (p Preprocess) Soft(width, height int) (*Soft, error) {
	if err := checkSize(p.Size, p.Size); err != nil {
		return nil, err
	}
	placed, err := p.place(width, height)
	if err != nil {
		return nil, err
	}
	return &Soft{*placed, p}, nil
}

// Forward is the tower's input, [Size, Size, 3].
func (s *Soft) Forward(m Pixels) ([]float32, error) {
	if err := s.fits(m.Width, m.Height, len(m.RGB)); err != nil {
		return nil, err
	}
	x := make([]float64, len(m.RGB))
	for i, v := range m.RGB {
		x[i] = float64(v)
	}
	out := make([]float32, 3*s.Size*s.Size)
	for i, v := range s.placed.forward(x) {
		out[i] = float32((v - float64(s.Mean[i%3])) / float64(s.Std[i%3]))
	}
	return out, nil
}

// Backward takes the gradient at Forward's result to the gradient at the picture.
func (s *Soft) Backward(g []float32) []float32 {
	d := make([]float64, len(g))
	for i, v := range g {
		d[i] = float64(v) / float64(s.Std[i%3])
	}
	out := make([]float32, 3*s.placed.fromWidth*s.placed.fromHeight)
	for i, v := range s.placed.backward(d) {
		out[i] = float32(v)
	}
	return out
}

func (s *Soft) fits(width, height, n int) error {
	if width != s.placed.fromWidth || height != s.placed.fromHeight || n != 3*width*height {
		return fmt.Errorf("a picture of %d x %d with %d numbers in a pipeline for %d x %d with three each", width, height, n, s.placed.fromWidth, s.placed.fromHeight)
	}
	return nil
}

// placed is a resizing, and where the result lies in the tower's square.
type placed struct {
	*RealResize
	same                   bool // nothing is resized
	width, height, size    int
	left, top              int // of the square within the resized picture; negative where it is padded
	fromX, toX, fromY, toY int // the part of the square that the picture fills
}

// place prepares the resizing and the crop of pictures of a size.
func (p Preprocess) place(width, height int) (*placed, error) {
	w, h := p.target(width, height)
	z, err := NewRealResize(width, height, w, h, p.Filter, true)
	if err != nil {
		return nil, err
	}
	s := &placed{RealResize: z, same: w == width && h == height, width: w, height: h, size: p.Size,
		left: p.Centring.Offset(w, p.Size), top: p.Centring.Offset(h, p.Size)}
	s.fromX, s.toX = max(0, -s.left), min(p.Size, w-s.left)
	s.fromY, s.toY = max(0, -s.top), min(p.Size, h-s.top)
	return s, nil
}

// forward is the square, zeros where the picture does not reach.
func (s *placed) forward(x []float64) []float64 {
	if !s.same {
		x = s.Forward(x, 3)
	}
	out := make([]float64, 3*s.size*s.size)
	for y := s.fromY; y < s.toY; y++ {
		copy(out[3*(y*s.size+s.fromX):3*(y*s.size+s.toX)], x[3*((s.top+y)*s.width+s.left+s.fromX):])
	}
	return out
}

// backward is its transpose.
func (s *placed) backward(g []float64) []float64 {
	d := make([]float64, 3*s.width*s.height)
	for y := s.fromY; y < s.toY; y++ {
		copy(d[3*((s.top+y)*s.width+s.left+s.fromX):], g[3*(y*s.size+s.fromX):3*(y*s.size+s.toX)])
	}
	if s.same {
		return d
	}
	return s.Backward(d, 3)
}

// Card: resizing without rounding, as torch.nn.functional.interpolate does it to numbers.
// Anti-aliased: the weights of resize.go (bicubic a = -1/2). Plain: two or four taps at
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
