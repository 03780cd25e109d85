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

// refinement is a level that is refined.
type refinement struct {
	d             *DIS
	width, height int
	x, y          *plane // W, and at the end the result

	ix, iy, iz, ixx, ixy, iyy, ixz, iyz *plane

	a11, a12, a22, b1, b2, weight *plane
	du, dv, wu, wv                *plane // the increment, and W with it
}

func newRefinement(d *DIS, s *search, x, y *plane) *refinement {
	r := &refinement{d: d, width: s.width, height: s.height, x: x, y: y}
	mean := r.plane()
	r.iz = r.plane()
	rows(r.height, d.Threads, func(from, to int) {
		for i := from; i < to; i++ {
			own, m, z := s.first[i*s.width:][:s.width], mean.row(i), r.iz.row(i)
			for j := range own {
				warped := s.warped(float32(j)+x.row(i)[j], float32(i)+y.row(i)[j])
				a := float32(own[j])
				m[j], z[j] = float32(a*0.5)+float32(warped*0.5), warped-a
			}
		}
	})
	r.ix, r.iy = r.across(mean), r.down(mean)
	r.ixz, r.iyz = r.across(r.iz), r.down(r.iz)
	r.ixx, r.ixy, r.iyy = r.across(r.ix), r.down(r.ix), r.down(r.iy)
	for _, p := range []**plane{&r.a11, &r.a12, &r.a22, &r.b1, &r.b2, &r.weight, &r.du, &r.dv, &r.wu, &r.wv} {
		*p = r.plane()
	}
	copy(r.wu.pix, x.pix)
	copy(r.wv.pix, y.pix)
	return r
}

func (r *refinement) plane() *plane { return newPlane(r.width, r.height) }

// warped is the second frame at a place, to 1/32 pixel, edges repeated.
func (s *search) warped(x, y float32) float32 {
	a, b := steps32(x), steps32(y)
	j, i := a>>5, b>>5
	fx, fy := float32(a&31)/32, float32(b&31)/32
	at := func(i, j int) float32 {
		return float32(s.plain[min(max(i, 0), s.height-1)*s.width+min(max(j, 0), s.width-1)])
	}
	gx, gy := 1-fx, 1-fy
	return float32(at(i, j)*float32(gy*gx)) + float32(at(i, j+1)*float32(gy*fx)) + float32(at(i+1, j)*float32(fy*gx)) + float32(at(i+1, j+1)*float32(fy*fx))
}

// steps32 counts 32nds, half to even, within what 16 bits hold.
func steps32(x float32) int {
	v := math.RoundToEven(float64(x * 32))
	if !(v > -32*32768) {
		return -32 * 32768
	}
	return int(min(v, 32*32767))
}

// across and down are differences of the two neighbours.
func (r *refinement) across(p *plane) *plane {
	out := r.plane()
	for i := range r.height {
		from, to := p.row(i), out.row(i)
		for j := range r.width {
			to[j] = from[min(j+1, r.width-1)] - from[max(j-1, 0)]
		}
	}
	return out
}

func (r *refinement) down(p *plane) *plane {
	out := r.plane()
	for i := range r.height {
		up, under, to := p.near(i-1), p.near(i+1), out.row(i)
		for j := range to {
			to[j] = under[j] - up[j]
		}
	}
	return out
}

func (r *refinement) run() {
	for range r.d.Refinements {
		rows(r.height, r.d.Threads, func(from, to int) {
			for i := from; i < to; i++ {
				r.data(i)
				r.weights(i)
			}
		})
		rows(r.height, r.d.Threads, func(from, to int) {
			for i := from; i < to; i++ {
				r.smoothness(i)
			}
		})
		for range sweeps {
			for colour := range 2 {
				rows(r.height, r.d.Threads, func(from, to int) {
					for i := from; i < to; i++ {
						r.sweep(i, (i+colour)%2)
					}
				})
			}
		}
		for i, v := range r.x.pix {
			r.wu.pix[i] = v + r.du.pix[i]
			r.wv.pix[i] = r.y.pix[i] + r.dv.pix[i]
		}
	}
	copy(r.x.pix, r.wu.pix)
	copy(r.y.pix, r.wv.pix)
}

func sqrt32(x float32) float32 { return float32(math.Sqrt(float64(x))) }

// data fills a row of the equations with what colours and gradients ask for.
func (r *refinement) data(i int) {
	ix, iy, iz := r.ix.row(i), r.iy.row(i), r.iz.row(i)
	ixx, ixy, iyy, ixz, iyz := r.ixx.row(i), r.ixy.row(i), r.iyy.row(i), r.ixz.row(i), r.iyz.row(i)
	a11, a12, a22, b1, b2 := r.a11.row(i), r.a12.row(i), r.a22.row(i), r.b1.row(i), r.b2.row(i)
	du, dv := r.du.row(i), r.dv.row(i)
	gamma, delta, smallest := r.d.Gamma/2, r.d.Delta/2, r.d.Epsilon*r.d.Epsilon
	for j := range r.width {
		x, y, z, u, v := ix[j], iy[j], iz[j], du[j], dv[j]
		n := float32(x*x) + float32(y*y) + noise
		e := z + float32(x*u) + float32(y*v)
		w := delta / sqrt32(e*e/n+smallest) / n
		p11, p12, p22 := float32(w*float32(x*x))+noise, float32(w*float32(x*y)), float32(w*float32(y*y))+noise
		q1, q2 := float32(-w*float32(z*x)), float32(-w*float32(z*y))

		xx, xy, yy, xz, yz := ixx[j], ixy[j], iyy[j], ixz[j], iyz[j]
		n = float32(xx*xx) + float32(xy*xy) + noise
		m := float32(yy*yy) + float32(xy*xy) + noise
		ex, ey := xz+float32(xx*u)+float32(xy*v), yz+float32(xy*u)+float32(yy*v)
		w = gamma / sqrt32(ex*ex/n+ey*ey/m+smallest)
		a11[j] = p11 + float32(w*(xx*xx/n+xy*xy/m))
		a12[j] = p12 + float32(w*(xx*xy/n+xy*yy/m))
		a22[j] = p22 + float32(w*(xy*xy/n+yy*yy/m))
		b1[j] = q1 - float32(w*(xx*xz/n+xy*yz/m))
		b2[j] = q2 - float32(w*(xy*xz/n+yy*yz/m))
	}
}

// weights fills a row of smoothness' weights from W with its increment, forward differences.
func (r *refinement) weights(i int) {
	u, v, underU, underV, out := r.wu.row(i), r.wv.row(i), r.wu.near(i+1), r.wv.near(i+1), r.weight.row(i)
	alpha, smallest := r.d.Alpha/2, r.d.Epsilon*r.d.Epsilon
	for j := range r.width {
		right := min(j+1, r.width-1)
		ux, vx, uy, vy := u[right]-u[j], v[right]-v[j], underU[j]-u[j], underV[j]-v[j]
		out[j] = alpha / sqrt32(float32(ux*ux)+float32(vx*vx)+float32(uy*uy)+float32(vy*vy)+smallest)
	}
}

// smoothness adds to a row what its four neighbours ask for: own and left first on red
// squares, left and own on black ones, as OpenCV's two passes do.
func (r *refinement) smoothness(i int) {
	w, u, v := r.weight.row(i), r.x.row(i), r.y.row(i)
	a11, a22, b1, b2 := r.a11.row(i), r.a22.row(i), r.b1.row(i), r.b2.row(i)
	wUp, uUp, vUp, uUnder, vUnder := r.weight.near(i-1), r.x.near(i-1), r.y.near(i-1), r.x.near(i+1), r.y.near(i+1)
	for j := range r.width {
		toward := func(w, du, dv float32) {
			b1[j] += float32(w * du)
			b2[j] += float32(w * dv)
			a11[j] += w
			a22[j] += w
		}
		left := func() {
			if j > 0 {
				toward(w[j-1], u[j-1]-u[j], v[j-1]-v[j])
			}
		}
		right := func() {
			if j+1 < r.width {
				toward(w[j], u[j+1]-u[j], v[j+1]-v[j])
			}
		}
		up := func() {
			if i > 0 {
				toward(wUp[j], uUp[j]-u[j], vUp[j]-v[j])
			}
		}
		under := func() {
			if i+1 < r.height {
				toward(w[j], uUnder[j]-u[j], vUnder[j]-v[j])
			}
		}
		if (i+j)%2 == 0 {
			right()
			left()
			under()
			up()
		} else {
			left()
			right()
			up()
			under()
		}
	}
}

// sweep moves every second pixel of a row, from the first one on.
func (r *refinement) sweep(i, first int) {
	w, du, dv := r.weight.row(i), r.du.row(i), r.dv.row(i)
	a11, a12, a22, b1, b2 := r.a11.row(i), r.a12.row(i), r.a22.row(i), r.b1.row(i), r.b2.row(i)
	nothing := make([]float32, r.x.stride)
	wUp, uUp, vUp, uUnder, vUnder := nothing, nothing, nothing, nothing, nothing
	if i > 0 {
		wUp, uUp, vUp = r.weight.row(i-1), r.du.row(i-1), r.dv.row(i-1)
	}
	if i+1 < r.height {
		uUnder, vUnder = r.du.row(i+1), r.dv.row(i+1)
	}
	for j := first; j < r.width; j += 2 {
		var wl, ul, vl, ur, vr float32
		if j > 0 {
			wl, ul, vl = w[j-1], du[j-1], dv[j-1]
		}
		if j+1 < r.width {
			ur, vr = du[j+1], dv[j+1]
		}
		own := w[j]
		su := float32(wl*ul) + float32(own*ur) + float32(wUp[j]*uUp[j]) + float32(own*uUnder[j])
		sv := float32(wl*vl) + float32(own*vr) + float32(wUp[j]*vUp[j]) + float32(own*vUnder[j])
		u, v := du[j], dv[j]
		u += float32(omega * ((su+b1[j]-float32(v*a12[j]))/a11[j] - u))
		v += float32(omega * ((sv+b2[j]-float32(u*a12[j]))/a22[j] - v))
		du[j], dv[j] = u, v
	}
}
