package flow

import (
	"fmt"
	"github.com/darkroom-rl/darkroom/video"
)

// Card: Farneback, "Two-frame motion estimation based on polynomial expansion" (2003), as
// OpenCV's calcOpticalFlowFarneback computes it. Around each pixel a frame is a quadratic
// polynomial (expansion.go); where it moves by d, the linear part of the second is that of the
// first plus 2 A d. These equations, averaged over a window, give d; coarse levels go first,
// and each level repeats with the second frame read where the flow so far leads.
//
//   - frames of a level are blurred from full size: sigma (1/scale - 1)/2, size
//     max(3, round(5 sigma)|1), then resized bilinearly (level.go)
//   - outside of the second frame only the first counts; the five outermost rows and columns
//     are damped
//   - the window is a box of 2(w/2)+1 by w, or a Gaussian of sigma 0.3(w/2), edges repeated
//   - the determinant has 1e-3 added
//
// OpenCV adds up the window's sums as it goes, which leaves noise of up to 0.15 pixel where
// two frames are equal; ours are whole sums in float64, and 0 there but near the edges.

// Farneback holds the method's settings; a zero field means OpenCV's usual value.
type Farneback struct {
	PyramidScale float64      // of a level to the finer one: 0.5
	Levels       int          // coarser ones than the frame: 3. -1: none
	Window       int          // 15
	Iterations   int          // on a level: 3
	PolyN        int          // the expansion looks this far: 5
	PolySigma    float64      // and weighs by a Gaussian: 1.2
	Gaussian     bool         // the window is a Gaussian
	Start        *video.Field // the start of the coarsest level, at full size; nil: no motion
	Threads      int          // 1

	Watch func(Step) // called with each level's result; for tests
}

// A Step is a level's result: planes of one size.
type Step struct {
	Level, Width, Height int // level 0 is full size
	Name                 string
	Planes               [][]float32
}

func (f Farneback) filled() Farneback {
	if f.PyramidScale == 0 {
		f.PyramidScale = 0.5
	}
	if f.Levels == 0 {
		f.Levels = 3
	}
	if f.Window == 0 {
		f.Window = 15
	}
	if f.Iterations == 0 {
		f.Iterations = 3
	}
	if f.PolyN == 0 {
		f.PolyN = 5
	}
	if f.PolySigma == 0 {
		f.PolySigma = 1.2
	}
	f.Levels, f.Threads = max(f.Levels, 0), max(f.Threads, 1)
	return f
}

func (f Farneback) check(a Gray) error {
	switch {
	case !(f.PyramidScale > 0 && f.PyramidScale < 1):
		return fmt.Errorf("a pyramid scale of %v: between 0 and 1 is possible", f.PyramidScale)
	case f.Window < 1 || f.Window > 1000 || f.PolyN < 1 || f.PolyN > 100 || f.Iterations < 1:
		return fmt.Errorf("window %d, poly n %d, iterations %d: 1..1000, 1..100 and at least 1 are possible", f.Window, f.PolyN, f.Iterations)
	case !(f.PolySigma > 0):
		return fmt.Errorf("a poly sigma of %v: a positive one is needed", f.PolySigma)
	case f.Start == nil:
		return nil
	}
	if err := f.Start.Check(); err != nil {
		return fmt.Errorf("the flow to start from: %w", err)
	}
	if f.Start.Width != a.Width || f.Start.Height != a.Height {
		return fmt.Errorf("the flow to start from is %d x %d, the frames are %d x %d", f.Start.Width, f.Start.Height, a.Width, a.Height)
	}
	return nil
}

// Between is the flow between two frames of a clip.
func (f Farneback) Between(c *video.Clip, from, to int) (*video.Field, error) {
	a, b, err := pair(c, from, to)
	if err != nil {
		return nil, err
	}
	return f.Flow(a, b)
}

// Flow is the flow from frame a to frame b.
func (f Farneback) Flow(first, second Gray) (*video.Field, error) {
	f = f.filled()
	if err := checkPair(first, second); err != nil {
		return nil, err
	}
	if err := f.check(first); err != nil {
		return nil, err
	}
	k := fastest()
	frames := [2]*plane{planeOf(first), planeOf(second)}
	kernel := polynomials(f.PolyN, f.PolySigma)
	var x, y *plane
	for level := f.coarsest(first.Width, first.Height); level >= 0; level-- {
		l := f.level(level, first.Width, first.Height)
		switch {
		case x != nil:
			x, y = x.enlarged(l.width, l.height, 1/f.PyramidScale, f.Threads), y.enlarged(l.width, l.height, 1/f.PyramidScale, f.Threads)
		case f.Start != nil:
			x, y = shrunk(f.Start.X, first.Width, first.Height, l), shrunk(f.Start.Y, first.Width, first.Height, l)
		default:
			x, y = newPlane(l.width, l.height), newPlane(l.width, l.height)
		}
		f.see(level, "start_flow", x, y)
		var r [2]expansion
		for i, frame := range frames {
			m := l.picture(k, frame, f.Threads)
			if i == 0 {
				f.see(level, "image_0", m)
			}
			r[i] = kernel.expand(k, m, f.Threads)
			f.see(level, fmt.Sprintf("expansion_%d", i), r[i][:]...)
		}
		m := newEquations(l.width, l.height)
		for i := range f.Iterations {
			m.build(k, &r, x, y, f.Threads)
			if i == 0 {
				f.see(level, "equations", m.out[:]...)
			}
			m.solve(k, f.weights(), x, y, f.Threads)
			f.see(level, fmt.Sprintf("flow_%d", i+1), x, y)
		}
	}
	return field(x, y), nil
}

func (f Farneback) see(level int, what string, planes ...*plane) {
	if f.Watch == nil {
		return
	}
	s := Step{level, planes[0].width, planes[0].height, what, nil}
	for _, p := range planes {
		s.Planes = append(s.Planes, p.dense())
	}
	f.Watch(s)
}

// coarsest is how often a frame may be made smaller before a side falls below 32 pixels.
func (f Farneback) coarsest(width, height int) int {
	scale := 1.0
	for k := range f.Levels {
		scale *= f.PyramidScale
		if float64(width)*scale < 32 || float64(height)*scale < 32 {
			return k
		}
	}
	return f.Levels
}

// weights are the window's, down and across: the middle, then outwards.
func (f Farneback) weights() (w [2][]float64) {
	r := f.Window / 2
	for i := range w {
		w[i] = make([]float64, r+1)
	}
	if !f.Gaussian {
		for i := range r + 1 {
			w[0][i], w[1][i] = 1, 1/float64(f.Window*f.Window)
		}
		return w
	}
	sigma, sum := 0.3*float64(r), -1.0
	for i := range r + 1 {
		w[0][i] = 1
		if i > 0 {
			w[0][i] = float64(float32(bell(i, sigma)))
		}
		sum += 2 * w[0][i]
	}
	for i := range r + 1 {
		w[0][i] = float64(float32(w[0][i] / sum))
	}
	w[1] = w[0]
	return w
}

// system is the normal equations of a level: g11, g12, g22, h1, h2 for each pixel.
type system struct {
	out  [5]*plane
	edge []float32 // the damping of columns
}

// damping is of the five outermost rows and columns.
var damping = [5]float32{0.14, 0.14, 0.4472, 0.4472, 0.4472}

// damped is the factor of i among n, from both ends.
func damped(i, n int) float32 {
	k := float32(1)
	if i < len(damping) {
		k = damping[i]
	}
	if n-1-i < len(damping) {
		k *= damping[n-1-i]
	}
	return k
}

func newEquations(width, height int) *system {
	s := &system{edge: make([]float32, padded(width))}
	for i := range s.out {
		s.out[i] = newPlane(width, height)
	}
	for x := range width {
		s.edge[x] = damped(x, width)
	}
	return s
}

func (s *system) build(k *kernels, r *[2]expansion, x, y *plane, threads int) {
	rows(x.height, threads, func(from, to int) {
		e := equations{stride: r[1][0].stride, width: float32(x.width - 1), height: float32(x.height - 1)}
		for i := range e.b {
			e.b[i] = r[1][i].pix
		}
		scaled := make([]float32, len(s.edge))
		for v := from; v < to; v++ {
			e.x, e.y, e.row, e.edge = x.row(v), y.row(v), float32(v), s.edge
			if d := damped(v, x.height); d != 1 {
				for i, c := range s.edge {
					scaled[i] = c * d
				}
				e.edge = scaled
			}
			for i := range e.a {
				e.a[i], e.out[i] = r[0][i].row(v), s.out[i].row(v)
			}
			k.equations(&e)
		}
	})
}

// solve averages the equations over the window and writes the flow.
func (s *system) solve(k *kernels, weights [2][]float64, x, y *plane, threads int) {
	radius := len(weights[0]) - 1
	rows(x.height, threads, func(from, to int) {
		wide := newLine[float64](x.width, radius)
		near, beside := make([][]float32, 2*radius+1), make([][]float64, 2*radius+1)
		for i := range beside {
			beside[i] = wide.shifted(i - radius)
		}
		var g [5][]float64
		for i := range g {
			g[i] = make([]float64, x.stride)
		}
		for v := from; v < to; v++ {
			for i, m := range s.out {
				for j := range near {
					near[j] = m.near(v + j - radius)
				}
				k.window(wide.row(), near, weights[0])
				wide.repeat(x.width)
				k.across(g[i], beside, weights[1])
			}
			k.solve(x.row(v), y.row(v), &g)
		}
	})
}
