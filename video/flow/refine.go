package flow

import "math"

// Card: variational refinement (Brox et al., 2004; OpenCV's VariationalRefinement). The flow W
// becomes W + d with d the minimum of
//
//	delta psi(Iz + Ix du + Iy dv)/n + gamma psi(the same of the gradients)/n + alpha psi(|grad(W + d)|)
//
// with psi(s) = sqrt(s^2 + epsilon^2) and n the squares of gradients plus 0.01. Weights 1/psi are
// taken from the round before, and the linear equations solved by five sweeps of successive
// over-relaxation with omega 1.6, red squares of the chessboard first. Derivatives are those
// of the mean of the first and the warped second frame, edges repeated; the warp reads between
// pixels in steps of 1/32, as OpenCV's remap does.

const (
	omega  = float32(1.6)
	noise  = float32(0.1 * 0.1) // zeta squared, in OpenCV's words
	sweeps = 5
)

// refinement is a level that is refined. Its numbers are in sheets with frames of zeros: the weights and increments
// beyond the edges.
type refinement struct {
	d             *DIS
	width, height int
	x, y          *sheet // W

	ix, iy, iz, ixx, ixy, iyy, ixz, iyz *sheet

	a11, a12, a22, b1, b2, weight *sheet
	du, dv, wu, wv                *sheet // the increment, and W with it

	red   [2][]float32 // of an even and an odd row: -1 on red squares, 1 on black ones
	turn  [2][]float32 // -1 where pixels are moved, from the first or the second on; 1 elsewhere
	inner []float32    // 1, but 0 from the last column on
}

func newRefinement(d *DIS, s *search, x, y *plane) *refinement {
	r := &refinement{d: d, width: s.width, height: s.height}
	mean := r.sheet()
	for _, p := range []**sheet{&r.x, &r.y, &r.iz, &r.a11, &r.a12, &r.a22, &r.b1, &r.b2, &r.weight, &r.du, &r.dv, &r.wu, &r.wv} {
		*p = r.sheet()
	}
	rows(r.height, d.Threads, func(from, to int) {
		for i := from; i < to; i++ {
			for _, p := range []*sheet{r.x, r.wu} {
				copy(p.row(i), x.row(i)[:r.width])
			}
			for _, p := range []*sheet{r.y, r.wv} {
				copy(p.row(i), y.row(i)[:r.width])
			}
			r.edges(i)
			own, m, z, u, v := s.first[i*s.width:][:s.width], mean.row(i), r.iz.row(i), r.x.row(i), r.y.row(i)
			for j := range own {
				warped := s.warped(float32(j)+u[j], float32(i)+v[j])
				a := float32(own[j])
				m[j], z[j] = float32(a*0.5)+float32(warped*0.5), warped-a
			}
		}
	})
	r.ix, r.iy = r.across(mean), r.down(mean)
	r.ixz, r.iyz = r.across(r.iz), r.down(r.iz)
	r.ixx, r.ixy, r.iyy = r.across(r.ix), r.down(r.ix), r.down(r.iy)
	n := padded(r.width)
	r.inner = make([]float32, n)
	for i := range 2 {
		r.red[i], r.turn[i] = make([]float32, n), make([]float32, n)
		for j := range n {
			r.red[i][j], r.turn[i][j] = float32(2*((i+j)%2)-1), 1
			if j < r.width {
				r.turn[i][j] = r.red[i][j]
			}
			if j < r.width-1 {
				r.inner[j] = 1
			}
		}
	}
	return r
}

// A sheet is a plane with a frame of zeros.
type sheet struct {
	width, height, stride int
	pix                   []float32
}

// side is the width of the frame to the left; to the right it is at least as wide.
const side = 8

func (r *refinement) sheet() *sheet {
	stride := padded(r.width) + 2*side
	return &sheet{r.width, r.height, stride, make([]float32, stride*(r.height+2))}
}

// row is a row, -1 to height, padded to whole blocks.
func (s *sheet) row(y int) []float32 { return s.shifted(y, 0) }

// shifted is a row from column x on: -1, 0 or 1.
func (s *sheet) shifted(y, x int) []float32 {
	return s.pix[(y+1)*s.stride+side+x:][:s.stride-2*side]
}

// warped is the second frame at a place, to 1/32 pixel, edges repeated.
func (s *search) warped(x, y float32) float32 {
	a, b := steps32(x), steps32(y)
	j, i := a>>5, b>>5
	fx, fy := float32(a&31)/32, float32(b&31)/32
	l, r := min(max(j, 0), s.width-1), min(max(j+1, 0), s.width-1)
	up, down := s.plain[min(max(i, 0), s.height-1)*s.width:], s.plain[min(max(i+1, 0), s.height-1)*s.width:]
	gx, gy := 1-fx, 1-fy
	return float32(float32(up[l])*float32(gy*gx)) + float32(float32(up[r])*float32(gy*fx)) + float32(float32(down[l])*float32(fy*gx)) + float32(float32(down[r])*float32(fy*fx))
}

// steps32 counts 32nds, half to even, within 16 bits.
func steps32(x float32) int {
	v := math.RoundToEven(float64(x * 32))
	if !(v > -32*32768) {
		return -32 * 32768
	}
	return int(min(v, 32*32767))
}

// across and down are differences of the two neighbours, edges repeated.
func (r *refinement) across(p *sheet) *sheet {
	out := r.sheet()
	for i := range r.height {
		from, to := p.row(i)[:r.width], out.row(i)[:r.width]
		to[0] = from[min(1, r.width-1)] - from[0]
		for j := 1; j < len(from)-1; j++ {
			to[j] = from[j+1] - from[j-1]
		}
		if r.width > 1 {
			to[r.width-1] = from[r.width-1] - from[r.width-2]
		}
	}
	return out
}

func (r *refinement) down(p *sheet) *sheet {
	out := r.sheet()
	for i := range r.height {
		up, under, to := p.row(max(i-1, 0)), p.row(min(i+1, r.height-1)), out.row(i)
		for j := range to {
			to[j] = under[j] - up[j]
		}
	}
	return out
}

// run refines, and writes the flow to x and y.
func (r *refinement) run(k *kernels, x, y *plane) {
	for range r.d.Refinements {
		r.each(func(i int) { k.data(r.dataRow(i)) })
		r.each(func(i int) { k.weights(r.weightRow(i)) })
		r.each(func(i int) { k.smoothness(r.smoothRow(i)) })
		r.relax(k)
		r.each(func(i int) {
			u, v, x, y, du, dv := r.wu.row(i)[:r.width], r.wv.row(i), r.x.row(i), r.y.row(i), r.du.row(i), r.dv.row(i)
			for j := range u {
				u[j], v[j] = x[j]+du[j], y[j]+dv[j]
			}
			r.edges(i)
		})
	}
	for i := range r.height {
		copy(x.row(i), r.wu.row(i)[:r.width])
		copy(y.row(i), r.wv.row(i)[:r.width])
	}
}

func (r *refinement) each(do func(i int)) {
	rows(r.height, r.d.Threads, func(from, to int) {
		for i := from; i < to; i++ {
			do(i)
		}
	})
}

// relax runs the sweeps. A square needs its neighbours of the other colour only, so one thread
// runs all sweeps in one pass over memory, each two rows behind the one before it and black a
// row behind red; several threads run one colour of one sweep at a time, with the same bits.
func (r *refinement) relax(k *kernels) {
	if r.d.Threads == 1 {
		var s sweep
		for front := range r.height + 2*sweeps {
			for n := range sweeps {
				for colour := range 2 {
					if i := front - 2*n - colour; i >= 0 && i < r.height {
						r.sweepRow(&s, i, (i+colour)%2)
						k.sweep(&s)
					}
				}
			}
		}
		return
	}
	for range sweeps {
		for colour := range 2 {
			rows(r.height, r.d.Threads, func(from, to int) {
				var s sweep
				for i := from; i < to; i++ {
					r.sweepRow(&s, i, (i+colour)%2)
					k.sweep(&s)
				}
			})
		}
	}
}

// edges repeats W's last column, for differences to the right.
func (r *refinement) edges(i int) {
	for _, p := range []*sheet{r.wu, r.wv} {
		p.shifted(i, 1)[r.width-1] = p.row(i)[r.width-1]
	}
}

// dataRow computes a row of the data term, from colours and gradients.
func (r *refinement) dataRow(i int) *data {
	return &data{
		in:    [10][]float32{r.ix.row(i), r.iy.row(i), r.iz.row(i), r.ixx.row(i), r.ixy.row(i), r.iyy.row(i), r.ixz.row(i), r.iyz.row(i), r.du.row(i), r.dv.row(i)},
		out:   [5][]float32{r.a11.row(i), r.a12.row(i), r.a22.row(i), r.b1.row(i), r.b2.row(i)},
		gamma: r.d.Gamma / 2, delta: r.d.Delta / 2, noise: noise, small: r.d.Epsilon * r.d.Epsilon,
	}
}

// weightRow is a row of smoothness' weights, from forward differences of W with its increment.
func (r *refinement) weightRow(i int) *weights {
	under := min(i+1, r.height-1)
	u, v := r.wu.row(i), r.wv.row(i)
	w := &weights{
		in:    [6][]float32{u, v, r.wu.shifted(i, 1), r.wv.shifted(i, 1), r.wu.row(under), r.wv.row(under)},
		out:   r.weight.row(i),
		alpha: r.d.Alpha / 2, small: r.d.Epsilon * r.d.Epsilon,
	}
	w.clear = w.out[r.width:]
	return w
}

// smoothRow computes a row of the smoothness term, from four neighbours.
func (r *refinement) smoothRow(i int) *smooth {
	under := r.weight.row(i)
	if i+1 == r.height {
		under = r.weight.row(-1) // zeros
	}
	return &smooth{
		weight: [4][]float32{r.weight.row(i), r.weight.shifted(i, -1), r.weight.row(i - 1), under},
		u:      [5][]float32{r.x.row(i), r.x.shifted(i, -1), r.x.shifted(i, 1), r.x.row(i - 1), r.x.row(i + 1)},
		v:      [5][]float32{r.y.row(i), r.y.shifted(i, -1), r.y.shifted(i, 1), r.y.row(i - 1), r.y.row(i + 1)},
		out:    [4][]float32{r.a11.row(i), r.a22.row(i), r.b1.row(i), r.b2.row(i)},
		red:    r.red[i%2], inner: r.inner,
	}
}

// sweepRow is every second pixel of a row, from the first or the second on.
func (r *refinement) sweepRow(s *sweep, i, first int) {
	s.weight = [3][]float32{r.weight.row(i), r.weight.shifted(i, -1), r.weight.row(i - 1)}
	s.u = [5][]float32{r.du.row(i), r.du.shifted(i, -1), r.du.shifted(i, 1), r.du.row(i - 1), r.du.row(i + 1)}
	s.v = [5][]float32{r.dv.row(i), r.dv.shifted(i, -1), r.dv.shifted(i, 1), r.dv.row(i - 1), r.dv.row(i + 1)}
	s.of = [5][]float32{r.a11.row(i), r.a12.row(i), r.a22.row(i), r.b1.row(i), r.b2.row(i)}
	s.turn, s.omega = r.turn[first], omega
}

// The refinement's loops over rows, in plain Go; as in rows.go, each is the definition of its
// bits. Sums run in the order of OpenCV's passes.

func sqrt32(x float32) float32 { return float32(math.Sqrt(float64(x))) }

// data is a row of the equations for du and dv that colours and gradients give.
type data struct {
	in                         [10][]float32 // Ix Iy Iz Ixx Ixy Iyy Ixz Iyz du dv
	out                        [5][]float32  // a11 a12 a22 b1 b2
	gamma, delta, noise, small float32
}

func (d *data) plain() {
	for j := range d.out[0] {
		x, y, z, u, v := d.in[0][j], d.in[1][j], d.in[2][j], d.in[8][j], d.in[9][j]
		n := float32(x*x) + float32(y*y) + d.noise
		e := z + float32(x*u) + float32(y*v)
		w := d.delta / sqrt32(e*e/n+d.small) / n
		a11, a12, a22 := float32(w*float32(x*x))+d.noise, float32(w*float32(x*y)), float32(w*float32(y*y))+d.noise
		b1, b2 := float32(w*float32(z*x)), float32(w*float32(z*y))

		xx, xy, yy, xz, yz := d.in[3][j], d.in[4][j], d.in[5][j], d.in[6][j], d.in[7][j]
		n = float32(xx*xx) + float32(xy*xy) + d.noise
		m := float32(yy*yy) + float32(xy*xy) + d.noise
		ex, ey := xz+float32(xx*u)+float32(xy*v), yz+float32(xy*u)+float32(yy*v)
		w = d.gamma / sqrt32(ex*ex/n+ey*ey/m+d.small)
		d.out[0][j] = a11 + float32(w*(xx*xx/n+xy*xy/m))
		d.out[1][j] = a12 + float32(w*(xx*xy/n+xy*yy/m))
		d.out[2][j] = a22 + float32(w*(xy*xy/n+yy*yy/m))
		d.out[3][j] = -b1 - float32(w*(xx*xz/n+xy*yz/m))
		d.out[4][j] = -b2 - float32(w*(xy*xz/n+yy*yz/m))
	}
}

// weights is a row of smoothness' weights.
type weights struct {
	in           [6][]float32 // u, v, those to the right, those below
	out          []float32
	alpha, small float32
	clear        []float32 // the part beyond the width, which stays 0
}

func (w *weights) plain() {
	for j := range w.out {
		u, v := w.in[0][j], w.in[1][j]
		ux, vx, uy, vy := w.in[2][j]-u, w.in[3][j]-v, w.in[4][j]-u, w.in[5][j]-v
		w.out[j] = w.alpha / sqrt32(float32(ux*ux)+float32(vx*vx)+float32(uy*uy)+float32(vy*vy)+w.small)
	}
	clear(w.clear)
}

// smooth adds its neighbours' terms to a row's equations: the right one's and the left
// one's, the lower one's and the upper one's on red squares; the left one's first, and the
// upper one's before the lower one's, on black ones.
type smooth struct {
	weight     [4][]float32 // own, of the left and of the upper pixel, and own where there is a lower one
	u, v       [5][]float32 // W: own, left, right, up, under
	out        [4][]float32 // a11 a22 b1 b2
	red, inner []float32
}

func (s *smooth) plain() {
	for j := range s.red {
		w, left, up, under := s.weight[0][j]*s.inner[j], s.weight[1][j], s.weight[2][j], s.weight[3][j]
		u, v := s.u[0][j], s.v[0][j]
		ask := [4][3]float32{
			{w, s.u[2][j] - u, s.v[2][j] - v}, {left, s.u[1][j] - u, s.v[1][j] - v},
			{under, s.u[4][j] - u, s.v[4][j] - v}, {up, s.u[3][j] - u, s.v[3][j] - v},
		}
		if s.red[j] > 0 {
			ask[0], ask[1], ask[2], ask[3] = ask[1], ask[0], ask[3], ask[2]
		}
		a11, a22, b1, b2 := s.out[0][j], s.out[1][j], s.out[2][j], s.out[3][j]
		for _, a := range ask {
			a11, a22 = a11+a[0], a22+a[0]
			b1, b2 = b1+float32(a[0]*a[1]), b2+float32(a[0]*a[2])
		}
		s.out[0][j], s.out[1][j], s.out[2][j], s.out[3][j] = a11, a22, b1, b2
	}
}

// sweep is a row of over-relaxation.
type sweep struct {
	weight [3][]float32 // own, of the left and of the upper pixel
	u, v   [5][]float32 // the increment: own, left, right, up, under
	of     [5][]float32 // a11 a12 a22 b1 b2
	turn   []float32
	omega  float32
}

func (s *sweep) plain() {
	for j, turn := range s.turn {
		if turn > 0 {
			continue
		}
		w, left, up := s.weight[0][j], s.weight[1][j], s.weight[2][j]
		su := float32(left*s.u[1][j]) + float32(w*s.u[2][j]) + float32(up*s.u[3][j]) + float32(w*s.u[4][j])
		sv := float32(left*s.v[1][j]) + float32(w*s.v[2][j]) + float32(up*s.v[3][j]) + float32(w*s.v[4][j])
		u, v, a12 := s.u[0][j], s.v[0][j], s.of[1][j]
		u += float32(s.omega * ((su+s.of[3][j]-float32(v*a12))/s.of[0][j] - u))
		v += float32(s.omega * ((sv+s.of[4][j]-float32(u*a12))/s.of[2][j] - v))
		s.u[0][j], s.v[0][j] = u, v
	}
}
