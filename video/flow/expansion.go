package flow

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
