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
