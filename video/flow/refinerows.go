package flow

import "math"

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
