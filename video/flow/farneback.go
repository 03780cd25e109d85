package flow

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/video"
)

// Card: Farneback, "Two-frame motion estimation based on polynomial expansion" (2003), as
// OpenCV's calcOpticalFlowFarneback computes it. Around each pixel a frame is a quadratic
// polynomial (expansion); where it moves by d, the linear part of the second is that of the
// first plus 2 A d. These equations, averaged over a window, give d; coarse levels go first,
// and each level repeats with the second frame read where the flow so far leads.
//
//   - frames of a level are blurred from full size: sigma (1/scale - 1)/2, size
//     max(3, round(5 sigma)|1), then resized bilinearly (level)
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

// Levels of a pyramid, made from the full frame each, and the values passed from one to the next.

type level struct {
	width, height int
	scale         float64
	weights       []float32 // of the blur: the middle, then outwards
}

func (f Farneback) level(k, width, height int) level {
	scale := 1.0
	for range k {
		scale *= f.PyramidScale
	}
	sigma := (1/scale - 1) / 2
	size := max(int(math.RoundToEven(5*sigma))|1, 3)
	return level{
		max(int(math.RoundToEven(float64(width)*scale)), 1), max(int(math.RoundToEven(float64(height)*scale)), 1),
		scale, gaussian(size, sigma),
	}
}

// gaussian is OpenCV's kernel of an odd size, from the middle on; without a sigma it has the
// small sizes by table, of which 3 is all that is asked for here.
func gaussian(size int, sigma float64) []float32 {
	if sigma <= 0 {
		return []float32{0.5, 0.25}
	}
	w, sum := make([]float64, size/2+1), 0.0
	for i := range w {
		w[i] = bell(i, sigma)
		sum += w[i]
		if i > 0 {
			sum += w[i]
		}
	}
	out := make([]float32, len(w))
	for i := range w {
		out[i] = float32(w[i] / sum)
	}
	return out
}

// bell is exp(-i^2/(2 sigma^2)), the same on every machine.
func bell(i int, sigma float64) float64 {
	return nn.Exp(max(-float64(i*i)/(2*sigma*sigma), -700))
}

// picture is a frame blurred, edges mirrored, and resized bilinearly.
func (l level) picture(k *kernels, frame *plane, threads int) *plane {
	out := newPlane(l.width, l.height)
	radius := len(l.weights) - 1
	rowsOf, columns := betweenOf(frame.height, l.height), betweenOf(frame.width, l.width)
	rows(l.height, threads, func(from, to int) {
		upper, lower := newLine[float32](frame.width, radius), make([]float32, frame.stride)
		near, beside := make([][]float32, 2*radius+1), make([][]float32, 2*radius+1)
		for i := range beside {
			beside[i] = upper.shifted(i - radius)
		}
		blurred := make([]float32, frame.stride)
		down := func(dst []float32, y int) {
			for i := range near {
				near[i] = frame.row(mirrored(y+i-radius, frame.height))
			}
			k.symmetric(dst, near, l.weights)
		}
		for y := from; y < to; y++ {
			at := rowsOf[y]
			row := upper.row()
			down(row, at.i)
			if at.w != 0 {
				down(lower, at.j)
				for x := range row {
					row[x] = float32(row[x]*(1-at.w)) + float32(lower[x]*at.w)
				}
			}
			upper.mirror(frame.width)
			if l.width == frame.width {
				k.symmetric(out.row(y), beside, l.weights)
				continue
			}
			k.symmetric(blurred, beside, l.weights)
			interpolate(out.row(y), blurred, columns)
		}
	})
	return out
}

// between is a place between two others.
type between struct {
	i, j int
	w    float32 // of j
}

// betweenOf are the places of n pixels among size, half-pixel centres, as OpenCV's bilinear
// resize finds them.
func betweenOf(size, n int) []between {
	all := make([]between, n)
	scale := float64(size) / float64(n)
	for x := range all {
		at := float32(float64((float64(x)+0.5)*scale) - 0.5)
		i := int(math.Floor(float64(at)))
		w := at - float32(i)
		if i < 0 {
			i, w = 0, 0
		}
		if i >= size-1 {
			i, w = size-1, 0
		}
		all[x] = between{i, min(i+1, size-1), w}
	}
	return all
}

func interpolate(dst, row []float32, places []between) {
	for x, p := range places {
		dst[x] = float32(row[p.i]*(1-p.w)) + float32(row[p.j]*p.w)
	}
}

// enlarged is a plane resized bilinearly and multiplied.
func (p *plane) enlarged(width, height int, times float64, threads int) *plane {
	out := newPlane(width, height)
	rowsOf, columns := betweenOf(p.height, height), betweenOf(p.width, width)
	k := float32(times)
	rows(height, threads, func(from, to int) {
		mixed := make([]float32, p.stride)
		for y := from; y < to; y++ {
			at := rowsOf[y]
			up, down := p.row(at.i), p.row(at.j)[:p.stride]
			u := 1 - at.w
			for x := range mixed {
				mixed[x] = (float32(up[x]*u) + float32(down[x]*at.w)) * k
			}
			interpolate(out.row(y), mixed, columns)
		}
	})
	return out
}

// shrunk is numbers averaged over the areas of a level's pixels, and multiplied by its scale.
func shrunk(x []float32, width, height int, l level) *plane {
	out := newPlane(l.width, l.height)
	rowsOf, columns := sharesOf(height, l.height), sharesOf(width, l.width)
	scale := float32(l.scale)
	for v := range l.height {
		row := out.row(v)
		for u := range l.width {
			sum := float32(0)
			for _, a := range rowsOf[v] {
				for _, b := range columns[u] {
					sum += float32(x[a.i*width+b.i] * float32(a.w*b.w))
				}
			}
			row[u] = sum * scale
		}
	}
	return out
}

// Card: polynomial expansion (Farneback, 2002). In a (2n+1)^2 neighbourhood, weighted by a
// Gaussian, a frame is closest to c + y ry + x rx + yy ryy + xx rxx + xy rxy. The basis is
// separable, so three filters down the rows and six across give the projections, and the
// inverse of the basis' 6 x 6 Gram matrix, of which four numbers are not zero, the
// coefficients. The constant is not needed. Edges are repeated.

// An expansion is the coefficients of each pixel: y, x, yy, xx, xy.
type expansion [5]*plane

// polynomial holds the filters, and the needed elements of the inverse.
type polynomial struct {
	n                      int
	three                  []float32 // g, x g, xx g, in turn
	g                      []float32
	ig11, ig03, ig33, ig55 float32
}

// PolynomialFilters are the three filters from -n to n, and the elements (1, 1), (0, 3), (3, 3)
// and (5, 5) of the inverse.
func PolynomialFilters(n int, sigma float64) (filters [3][]float32, inverse [4]float32) {
	p := polynomials(n, sigma)
	for j := range filters {
		filters[j] = make([]float32, 2*n+1)
		for i := range n + 1 {
			filters[j][n-i], filters[j][n+i] = p.three[3*i+j], p.three[3*i+j]
		}
	}
	for i := range n {
		filters[1][i] = -filters[1][i]
	}
	return filters, [4]float32{p.ig11, p.ig03, p.ig33, p.ig55}
}

func polynomials(n int, sigma float64) *polynomial {
	p := &polynomial{n: n, three: make([]float32, 3*(n+1)), g: make([]float32, n+1)}
	sum := 0.0
	for i := range p.g {
		p.g[i] = float32(bell(i, sigma))
		sum += float64(p.g[i])
		if i > 0 {
			sum += float64(p.g[i])
		}
	}
	for i := range p.g {
		p.g[i] = float32(float64(p.g[i]) / sum)
		p.three[3*i], p.three[3*i+1], p.three[3*i+2] = p.g[i], float32(i)*p.g[i], float32(i*i)*p.g[i]
	}
	// The Gram matrix over 1, xx, yy has 1's product a, then b, c and d; x, y and xy are separate.
	var a, b, c, d float64
	for y := -n; y <= n; y++ {
		for x := -n; x <= n; x++ {
			w := float64(float64(p.g[max(y, -y)]) * float64(p.g[max(x, -x)]))
			xx, yy := float64(x*x), float64(y*y)
			a, b, c, d = a+w, b+float64(w*xx), c+float64(w*xx*xx), d+float64(w*xx*yy)
		}
	}
	rest := float64(a*(c+d)) - float64(2*b*b)
	p.ig11, p.ig55 = float32(1/b), float32(1/d)
	p.ig03, p.ig33 = float32(-b/rest), float32((float64(a*c)-float64(b*b))/((c-d)*rest))
	return p
}

func (p *polynomial) expand(k *kernels, m *plane, threads int) (r expansion) {
	for i := range r {
		r[i] = newPlane(m.width, m.height)
	}
	rows(m.height, threads, func(from, to int) {
		near, count := make([][]float32, 2*p.n+1), 2*p.n+1
		var down [3]*line[float32]
		var beside [3][][]float32
		for i := range down {
			down[i], beside[i] = newLine[float32](m.width, p.n), make([][]float32, count)
			for j := range beside[i] {
				beside[i][j] = down[i].shifted(j - p.n)
			}
		}
		dst := [3][]float32{down[0].row(), down[1].row(), down[2].row()}
		var of1, ofY [3][]float32 // one, x, xx; y, xy, nothing
		for i := range of1 {
			of1[i], ofY[i] = make([]float32, m.stride), make([]float32, m.stride)
		}
		ofYY := make([]float32, m.stride)
		for y := from; y < to; y++ {
			for j := range near {
				near[j] = m.near(y + j - p.n)
			}
			k.expand(&dst, near, p.three)
			for _, l := range down {
				l.repeat(m.width)
			}
			k.expand(&of1, beside[0], p.three)
			k.expand(&ofY, beside[1], p.three)
			k.symmetric(ofYY, beside[2], p.g)
			p.coefficients(&r, y, &of1, &ofY, ofYY)
		}
	})
	return r
}

func (p *polynomial) coefficients(r *expansion, y int, of1, ofY *[3][]float32, ofYY []float32) {
	n := len(ofYY)
	ry, rx, ryy, rxx, rxy := r[0].row(y)[:n], r[1].row(y)[:n], r[2].row(y)[:n], r[3].row(y)[:n], r[4].row(y)[:n]
	one, x, xx, oneY, xy := of1[0][:n], of1[1][:n], of1[2][:n], ofY[0][:n], ofY[1][:n]
	for i := range ofYY {
		c := float32(one[i] * p.ig03)
		ry[i], rx[i] = oneY[i]*p.ig11, x[i]*p.ig11
		ryy[i] = c + float32(ofYY[i]*p.ig33)
		rxx[i] = c + float32(xx[i]*p.ig33)
		rxy[i] = xy[i] * p.ig55
	}
}
