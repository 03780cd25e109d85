package flow

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

func random(n int, r *rand.Rand) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func doubled(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// TestPaths: the row loops of the chosen path give the bits of those in plain Go, for rows of
// several lengths, filters of several radii, and flows that lead anywhere.
func TestPaths(t *testing.T) {
	k := fastest()
	if k == &plain {
		t.Skip("the chosen path is plain Go itself")
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{block, 5 * block} {
		for _, radius := range []int{0, 1, 2, 7, 20} {
			rows, wide := make([][]float32, 2*radius+1), make([][]float64, 2*radius+1)
			for i := range rows {
				rows[i] = random(n, r)
				wide[i] = doubled(rows[i])
			}
			w, w3 := random(radius+1, r), random(3*radius+3, r)
			both := func(name string, run func(k *kernels) any) {
				if got, want := run(k), run(&plain); !reflect.DeepEqual(got, want) {
					t.Errorf("%s of %d, radius %d: other bits than plain Go's", name, n, radius)
				}
			}
			both("symmetric", func(k *kernels) any { d := make([]float32, n); k.symmetric(d, rows, w); return d })
			both("window", func(k *kernels) any { d := make([]float64, n); k.window(d, rows, doubled(w)); return d })
			both("across", func(k *kernels) any { d := make([]float64, n); k.across(d, wide, doubled(w)); return d })
			both("expand", func(k *kernels) any {
				d := [3][]float32{make([]float32, n), make([]float32, n), make([]float32, n)}
				k.expand(&d, rows, w3)
				return d
			})
		}
		testEquations(t, k, n, r)
		var g [5][]float64
		for i := range g {
			g[i] = doubled(random(n, r))
		}
		var x, y [2][]float32
		for i, k := range []*kernels{k, &plain} {
			x[i], y[i] = make([]float32, n), make([]float32, n)
			k.solve(x[i], y[i], &g)
		}
		if !reflect.DeepEqual(x[0], x[1]) || !reflect.DeepEqual(y[0], y[1]) {
			t.Errorf("solve of %d: other bits than plain Go's", n)
		}
	}
	testPatch(t, k, r)
	testRefinement(t, k, r)
}

// testRefinement compares the refinement's loops, each with rows of its own.
func testRefinement(t *testing.T, k *kernels, r *rand.Rand) {
	const n = 3 * block
	row := func() []float32 { return random(n, r) }
	fill := func(rows [][]float32) {
		for i := range rows {
			rows[i] = row()
		}
	}
	clone := func(rows [][]float32) {
		for i := range rows {
			rows[i] = slices.Clone(rows[i])
		}
	}
	differ := func(name string, got, want [][]float32) {
		for i := range got {
			for j := range got[i] {
				if a, b := got[i][j], want[i][j]; math.Float32bits(a) != math.Float32bits(b) && (a == a || b == b) {
					t.Fatalf("%s: row %d at %d is %g, in plain Go %g", name, i, j, a, b)
				}
			}
		}
	}
	var d data
	fill(d.in[:])
	fill(d.out[:])
	d.gamma, d.delta, d.noise, d.small = 5, 2.5, noise, 1e-4
	clear(d.in[0][:20]) // flat places, where signs of zeros show
	clear(d.in[3][:20])
	clear(d.in[4][:10])
	e := d
	clone(e.out[:])
	k.data(&d)
	e.plain()
	differ("data", d.out[:], e.out[:])

	w := weights{alpha: 10, small: 1e-4, out: row()}
	fill(w.in[:])
	w.clear = w.out[n-5:]
	x := w
	x.out = slices.Clone(w.out)
	x.clear = x.out[n-5:]
	k.weights(&w)
	x.plain()
	differ("weights", [][]float32{w.out}, [][]float32{x.out})

	s := smooth{red: row(), inner: row()}
	fill(s.weight[:])
	fill(s.u[:])
	fill(s.v[:])
	fill(s.out[:])
	u := s
	clone(u.out[:])
	k.smoothness(&s)
	u.plain()
	differ("smoothness", s.out[:], u.out[:])

	p := sweep{turn: row(), omega: omega}
	fill(p.weight[:])
	fill(p.u[:])
	fill(p.v[:])
	fill(p.of[:])
	q := p
	clone(q.u[:])
	clone(q.v[:])
	k.sweep(&p)
	q.plain()
	differ("sweep, u", p.u[:], q.u[:])
	differ("sweep, v", p.v[:], q.v[:])
}

func testEquations(t *testing.T, k *kernels, n int, r *rand.Rand) {
	const height = 9
	e := equations{x: random(n, r), y: random(n, r), edge: random(n, r), stride: n, width: float32(n - 1), height: height - 1, row: 4}
	for i := range e.x {
		e.x[i] *= 5
		e.y[i] *= 5
	}
	wild := []float32{float32(math.NaN()), float32(math.Inf(1)), -1e30, 1e10, float32(n), -0.5, 0}
	for i := range e.x {
		if i%3 == 0 {
			e.x[i] = wild[i/3%len(wild)]
		}
		if i%5 == 0 {
			e.y[i] = wild[i/5%len(wild)]
		}
	}
	for i := range e.a {
		e.a[i], e.b[i] = random(n, r), random(n*height, r)
	}
	var got [2][5][]float32
	for j, k := range []*kernels{k, &plain} {
		for i := range e.out {
			e.out[i] = make([]float32, n)
		}
		k.equations(&e)
		got[j] = e.out
	}
	for i := range got[0] {
		for x := range got[0][i] {
			a, b := got[0][i][x], got[1][i][x]
			if math.Float32bits(a) != math.Float32bits(b) && (a == a || b == b) {
				t.Fatalf("equations of %d: out %d at %d is %g, in plain Go %g; flow %g, %g", n, i, x, a, b, e.x[x], e.y[x])
			}
		}
	}
}

func testPatch(t *testing.T, k *kernels, r *rand.Rand) {
	a, b, gx, gy := make([]uint8, 400), make([]uint8, 400), make([]int16, 400), make([]int16, 400)
	for range 200 {
		for i := range a {
			a[i], b[i], gx[i], gy[i] = uint8(r.Uint32()), uint8(r.Uint32()), int16(r.Uint32()%2041)-1020, int16(r.Uint32()%2041)-1020
		}
		w := [4]float32{r.Float32(), r.Float32(), r.Float32(), r.Float32()}
		var got, want [4]float32
		k.patch(&got, a, b, gx, gy, 17, 41, &w)
		patch8(&want, a, b, gx, gy, 17, 41, &w)
		if got != want {
			t.Fatalf("patch: %v, in plain Go %v", got, want)
		}
		var other [4]float32
		patchOf(8, &other, a, b, gx, gy, 17, 41, &w)
		for i := range other {
			if d := math.Abs(float64(other[i] - want[i])); !(d <= 1e-4*(math.Abs(float64(want[i]))+1e4)) {
				t.Fatalf("patch: sum %d is %g, one number after the other %g", i, want[i], other[i])
			}
		}
	}
}

// TestExpansion: the coefficients are those of the weighted least squares fit of a quadratic
// polynomial, solved by elimination.
func TestExpansion(t *testing.T) {
	g := waves(40, 30, 0, 0)
	m := planeOf(g)
	for _, s := range []struct {
		n     int
		sigma float64
	}{{5, 1.2}, {2, 0.8}, {7, 1.5}} {
		r := polynomials(s.n, s.sigma).expand(fastest(), m, 2)
		for _, at := range [][2]int{{20, 15}, {0, 0}, {39, 29}, {3, 28}} {
			want := fit(g, at[0], at[1], s.n, s.sigma)
			for i, w := range want {
				if got := float64(r[i].row(at[1])[at[0]]); math.Abs(got-w) > 1e-4 {
					t.Errorf("n %d, at %v: coefficient %d is %g, the fit's %g", s.n, at, i, got, w)
				}
			}
		}
	}
}

// fit returns the coefficients of y, x, yy, xx and xy.
func fit(g Gray, x0, y0, n int, sigma float64) [5]float64 {
	var m [6][7]float64
	for y := -n; y <= n; y++ {
		for x := -n; x <= n; x++ {
			u, v := float64(x), float64(y)
			w := math.Exp(-(u*u + v*v) / (2 * sigma * sigma))
			value := float64(g.Pix[min(max(y0+y, 0), g.Height-1)*g.Width+min(max(x0+x, 0), g.Width-1)])
			basis := [6]float64{1, v, u, v * v, u * u, u * v}
			for i, p := range basis {
				for j, q := range basis {
					m[i][j] += w * p * q
				}
				m[i][6] += w * p * value
			}
		}
	}
	for i := range m {
		for j := range m {
			if j == i {
				continue
			}
			f := m[j][i] / m[i][i]
			for k := range m[j] {
				m[j][k] -= f * m[i][k]
			}
		}
	}
	var out [5]float64
	for i := range out {
		out[i] = m[i+1][6] / m[i+1][i+1]
	}
	return out
}

// TestWindow: a row's solution is that of the sums over the window, one pixel after the other.
func TestWindow(t *testing.T) {
	const width, height = 21, 13
	r := rand.New(rand.NewPCG(3, 4))
	s := newEquations(width, height)
	for i, p := range s.out {
		copy(p.pix, random(len(p.pix), r))
		if i != 1 && i < 3 {
			for j := range p.pix {
				p.pix[j] = 2 + p.pix[j]*p.pix[j]
			}
		}
	}
	for _, f := range []Farneback{{Window: 7}, {Window: 8}, {Window: 9, Gaussian: true}, {Window: 1}} {
		x, y := newPlane(width, height), newPlane(width, height)
		s.solve(fastest(), f.weights(), x, y, 1)
		radius, w := f.Window/2, f.weights()
		for v := range height {
			for u := range width {
				var g [5]float64
				for i, p := range s.out {
					for dv := -radius; dv <= radius; dv++ {
						for du := -radius; du <= radius; du++ {
							g[i] += w[0][max(dv, -dv)] * w[1][max(du, -du)] * float64(p.near(v + dv)[min(max(u+du, 0), width-1)])
						}
					}
				}
				det := g[0]*g[2] - g[1]*g[1] + 1e-3
				a, b := (g[0]*g[4]-g[1]*g[3])/det, (g[2]*g[3]-g[1]*g[4])/det
				if d := math.Hypot(a-float64(x.row(v)[u]), b-float64(y.row(v)[u])); d > 1e-5*(1+math.Hypot(a, b)) {
					t.Fatalf("window %d at (%d, %d): %g, %g; want %g, %g", f.Window, u, v, x.row(v)[u], y.row(v)[u], a, b)
				}
			}
		}
	}
}
