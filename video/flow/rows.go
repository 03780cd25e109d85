package flow

import "math"

// The loops that cost time, in plain Go. Each is the definition of its bits: products are
// rounded where they might be added later, sums run in the order that is written. rows_amd64.go has the same
// in assembly. Rows are padded to whole blocks, and all of a row is computed.

// kernels are the row loops of a path.
type kernels struct {
	symmetric func(dst []float32, rows [][]float32, weights []float32)
	expand    func(dst *[3][]float32, rows [][]float32, weights []float32)
	window    func(dst []float64, rows [][]float32, weights []float64)
	across    func(dst []float64, rows [][]float64, weights []float64)
	equations func(a *equations)
	solve     func(x, y []float32, g *[5][]float64)
	patch     func(sum *[4]float32, a, b []uint8, gx, gy []int16, strideA, strideB int, w *[4]float32)

	data       func(*data)
	weights    func(*weights)
	smoothness func(*smooth)
	sweep      func(*sweep)
}

var plain = kernels{
	symmetric, expand, window, across, (*equations).plain, solve, patch8,
	(*data).plain, (*weights).plain, (*smooth).plain, (*sweep).plain,
}

// symmetric filters 2r+1 rows: w0 middle + sum over i of wi (row r-i + row r+i).
func symmetric(dst []float32, rows [][]float32, weights []float32) {
	r := len(weights) - 1
	middle, w := rows[r][:len(dst)], weights[0]
	for x := range dst {
		dst[x] = float32(w * middle[x])
	}
	for i := 1; i <= r; i++ {
		a, b, w := rows[r-i][:len(dst)], rows[r+i][:len(dst)], weights[i]
		for x := range dst {
			dst[x] += float32(w * (a[x] + b[x]))
		}
	}
}

// expand filters 2r+1 rows with three kernels: of weights[3i...], the first and the third are
// symmetric and the second, which has no middle, is not.
func expand(dst *[3][]float32, rows [][]float32, weights []float32) {
	r := len(weights)/3 - 1
	n := len(dst[0])
	d0, d1, d2, middle := dst[0], dst[1][:n], dst[2][:n], rows[r][:n]
	for x := range d0 {
		d0[x], d1[x], d2[x] = float32(weights[0]*middle[x]), 0, float32(weights[2]*middle[x])
	}
	for i := 1; i <= r; i++ {
		a, b := rows[r-i][:n], rows[r+i][:n]
		w0, w1, w2 := weights[3*i], weights[3*i+1], weights[3*i+2]
		for x := range d0 {
			p := a[x] + b[x]
			d0[x] += float32(w0 * p)
			d1[x] += float32(w1 * (b[x] - a[x]))
			d2[x] += float32(w2 * p)
		}
	}
}

// window is symmetric in float64.
func window(dst []float64, rows [][]float32, weights []float64) {
	r := len(weights) - 1
	middle, w := rows[r][:len(dst)], weights[0]
	for x := range dst {
		dst[x] = float64(w * float64(middle[x]))
	}
	for i := 1; i <= r; i++ {
		a, b, w := rows[r-i][:len(dst)], rows[r+i][:len(dst)], weights[i]
		for x := range dst {
			dst[x] += float64(w * (float64(a[x]) + float64(b[x])))
		}
	}
}

// across is window of float64.
func across(dst []float64, rows [][]float64, weights []float64) {
	r := len(weights) - 1
	middle, w := rows[r][:len(dst)], weights[0]
	for x := range dst {
		dst[x] = float64(w * middle[x])
	}
	for i := 1; i <= r; i++ {
		a, b, w := rows[r-i][:len(dst)], rows[r+i][:len(dst)], weights[i]
		for x := range dst {
			dst[x] += float64(w * (a[x] + b[x]))
		}
	}
}

// equations are the operands of one row of Farneback's normal equations.
type equations struct {
	x, y          []float32    // the flow so far
	a             [5][]float32 // the first frame's expansion: y, x, yy, xx, xy
	b             [5][]float32 // the second frame's, whole planes
	out           [5][]float32 // g11, g12, g22, h1, h2
	edge          []float32    // the damping of the row's results
	stride        int          // of b
	width, height float32      // the last column and row of b where a square of four begins, plus one
	row           float32
}

// plain is the loop.
func (e *equations) plain() {
	n := len(e.x)
	dxs, dys, edge := e.x, e.y[:n], e.edge[:n]
	for i := range dxs {
		dx, dy := dxs[i], dys[i]
		fx, fy := float32(i)+dx, e.row+dy
		x0, y0 := floor32(fx), floor32(fy)
		r4, r5, r6 := e.a[2][i], e.a[3][i], e.a[4][i]
		var r2, r3 float32
		if x0 >= 0 && y0 >= 0 && x0 < e.width && y0 < e.height {
			fx, fy = fx-x0, fy-y0
			gx, gy := 1-fx, 1-fy
			a00, a01, a10, a11 := gx*gy, fx*gy, gx*fy, fx*fy
			at := int(y0)*e.stride + int(x0)
			var s [5]float32
			for k := range s {
				up, down := e.b[k][at:at+2], e.b[k][at+e.stride:at+e.stride+2]
				s[k] = float32(a00*up[0]) + float32(a01*up[1]) + float32(a10*down[0]) + float32(a11*down[1])
			}
			r2, r3 = s[0], s[1]
			r4, r5, r6 = float32((r4+s[2])*0.5), float32((r5+s[3])*0.5), float32((r6+s[4])*0.25)
		} else {
			r6 *= 0.5
		}
		r2, r3 = float32((e.a[0][i]-r2)*0.5), float32((e.a[1][i]-r3)*0.5)
		r2 = r2 + float32(r4*dy) + float32(r6*dx)
		r3 = r3 + float32(r6*dy) + float32(r5*dx)
		k := edge[i]
		r2, r3, r4, r5, r6 = float32(r2*k), float32(r3*k), float32(r4*k), float32(r5*k), float32(r6*k)
		e.out[0][i] = float32(r4*r4) + float32(r6*r6)
		e.out[1][i] = (r4 + r5) * r6
		e.out[2][i] = float32(r5*r5) + float32(r6*r6)
		e.out[3][i] = float32(r4*r2) + float32(r6*r3)
		e.out[4][i] = float32(r6*r2) + float32(r5*r3)
	}
}

func floor32(x float32) float32 { return float32(math.Floor(float64(x))) }

// solve finds the flow of a row: the two unknowns of g11 y + g12 x = h1, g12 y + g22 x = h2.
func solve(x, y []float32, g *[5][]float64) {
	for i := range x {
		g11, g12, g22, h1, h2 := g[0][i], g[1][i], g[2][i], g[3][i], g[4][i]
		d := 1 / (float64(g11*g22) - float64(g12*g12) + 1e-3)
		x[i] = float32((float64(g11*h2) - float64(g12*h1)) * d)
		y[i] = float32((float64(g22*h1) - float64(g12*h2)) * d)
	}
}
