package pretrain

import (
	"cmp"
	"math"
	"slices"
)

// principal are the n directions in which a symmetric matrix, [size, size], is largest, longest first: its
// eigenvectors, by Jacobi's rotations. The largest number of each is positive.
func principal(matrix []float64, size, n int) [][]float64 {
	a, v := slices.Clone(matrix), make([]float64, size*size)
	for i := range size {
		v[i*size+i] = 1
	}
	for range 30 {
		off := 0.0
		for p := range size {
			for q := p + 1; q < size; q++ {
				off += math.Abs(a[p*size+q])
				rotate(a, v, size, p, q)
			}
		}
		if off < 1e-12 {
			break
		}
	}
	order := make([]int, size)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(a[j*size+j], a[i*size+i]) })
	out := make([][]float64, n)
	for i := range out {
		out[i] = make([]float64, size)
		top := 0.0
		for k := range size {
			out[i][k] = v[k*size+order[i]]
			if math.Abs(out[i][k]) > math.Abs(top) {
				top = out[i][k]
			}
		}
		if top < 0 {
			for k := range out[i] {
				out[i][k] = -out[i][k]
			}
		}
	}
	return out
}

// rotate makes a[p,q] zero, and turns the columns of v with it.
func rotate(a, v []float64, size, p, q int) {
	if math.Abs(a[p*size+q]) < 1e-300 {
		return
	}
	theta := (a[q*size+q] - a[p*size+p]) / (2 * a[p*size+q])
	t := 1 / (math.Abs(theta) + math.Sqrt(float64(theta*theta)+1))
	if theta < 0 {
		t = -t
	}
	c := 1 / math.Sqrt(float64(t*t)+1)
	s := t * c
	turn := func(m []float64, i, j int) {
		x, y := m[i], m[j]
		m[i], m[j] = float64(c*x)-float64(s*y), float64(s*x)+float64(c*y)
	}
	for k := range size {
		turn(a, k*size+p, k*size+q)
	}
	for k := range size {
		turn(a, p*size+k, q*size+k)
		turn(v, k*size+p, k*size+q)
	}
}
