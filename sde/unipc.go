package sde

import (
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/portable"
)

// UniPC (Zhao et al., 2023) for flows, on predictions of the clean sample: a step first
// corrects the latents that produced the present output (UniC), then predicts the next ones
// (UniP). The network is called once a step, at the predicted latents.
//
//	s'/s·y - (1-s')·[φ·D + B·(sum of ρ_j·(D_j - D)/r_j)],  φ = e⁻ʰ - 1,  B = -h (bh1) or φ (bh2)
//
// ρ solves the order's conditions: sum of ρ_j·r_j^(i-1) = b_i.
type UniPC struct {
	Order int
	BH1   bool
	Off   []int // steps after which nothing is corrected
}

func (u UniPC) order(s Schedule, step int) int {
	return min(u.Order, s.Steps()-step, step+1)
}

// Row is one step.
func (u UniPC) Row(s Schedule, step int) Row {
	r := flowRow(s, step)
	if step > 0 && !slices.Contains(u.Off, step-1) {
		c := u.correct(s, step)
		r.Correct = &c
	}
	h := lambda(r.To) - lambda(r.From)
	if math.IsInf(h, 0) || math.IsNaN(h) {
		r.Next = r.Clean
		if r.To > 0 {
			r.Next = y(0).times(r.To / r.From).plus(r.Clean.times(1 - r.To))
		}
		return r
	}
	n := u.order(s, step)
	phi, b, conditions := u.coefficients(h, n)
	var at []float64
	for j := 1; j < n; j++ {
		at = append(at, (lambda(s.Sigmas[step-j])-lambda(r.From))/h)
	}
	r.Next = y(0).times(r.To / r.From).plus(r.Clean.times(-(1 - r.To) * phi))
	for j, rho := range weights(at, conditions) {
		slope := denoised(s, step, j+1).minus(r.Clean).times(1 / at[j])
		r.Next = r.Next.plus(slope.times(-(1 - r.To) * b * rho))
	}
	return r
}

// correct is the latents of this step once their output is known.
func (u UniPC) correct(s Schedule, step int) Mix {
	from, to := s.Sigmas[step-1], s.Sigmas[step]
	h := lambda(to) - lambda(from)
	if math.IsInf(h, 0) || math.IsNaN(h) {
		return x(0)
	}
	n := u.order(s, step-1)
	phi, b, conditions := u.coefficients(h, n)
	var at []float64
	for j := 1; j < n; j++ {
		at = append(at, (lambda(s.Sigmas[step-1-j])-lambda(from))/h)
	}
	at = append(at, 1)
	before := denoised(s, step, 1)
	sum := y(1).times(to / from).plus(before.times(-(1 - to) * phi))
	rho := weights(at, conditions)
	for j, w := range rho {
		lag := j + 2
		if j == n-1 {
			lag = 0
		}
		other := denoised(s, step, lag)
		sum = sum.plus(other.minus(before).times(-(1 - to) * b * w / at[j]))
	}
	return sum
}

// coefficients are φ, B and the right-hand sides of n conditions.
func (u UniPC) coefficients(h float64, n int) (phi, b float64, conditions []float64) {
	phi = portable.Expm1(-h)
	if b = phi; u.BH1 {
		b = -h
	}
	factorial, p := 1.0, phi/-h-1
	for j := 1; j <= n; j++ {
		conditions = append(conditions, p*factorial/b)
		factorial *= float64(j + 1)
		p = p/-h - 1/factorial
	}
	return phi, b, conditions
}

// weights solve the conditions; one unknown is 1/2, as upstream sets it. A step back to s = 1
// is infinitely far in λ: its weight is 0, the limit, and the others solve the rest.
func weights(at, conditions []float64) []float64 {
	n := len(at)
	if n == 0 {
		return nil
	}
	if n == 1 {
		return []float64{0.5}
	}
	for i, r := range at {
		if math.IsInf(r, 0) {
			near := append(append([]float64(nil), at[:i]...), at[i+1:]...)
			return slices.Insert(vandermonde(near, conditions), i, 0)
		}
	}
	return vandermonde(at, conditions)
}

// vandermonde solves the sum of ρ_j·r_j^i = b_i.
func vandermonde(at, conditions []float64) []float64 {
	n := len(at)
	m := make([][]float64, n)
	for i := range m {
		for _, r := range at {
			m[i] = append(m[i], portable.Pow(r, float64(i)))
		}
		m[i] = append(m[i], conditions[i])
	}
	return solve(m)
}

// solve is Gaussian elimination with pivots; the last column is the right-hand side.
func solve(m [][]float64) []float64 {
	n := len(m)
	for c := range n {
		pivot := c
		for r := c; r < n; r++ {
			if math.Abs(m[r][c]) > math.Abs(m[pivot][c]) {
				pivot = r
			}
		}
		m[c], m[pivot] = m[pivot], m[c]
		for r := range n {
			if r == c {
				continue
			}
			f := m[r][c] / m[c][c]
			for k := c; k <= n; k++ {
				m[r][k] -= float64(f * m[c][k])
			}
		}
	}
	out := make([]float64, n)
	for i := range out {
		out[i] = m[i][n] / m[i][i]
	}
	return out
}

// UniPCSolver is Wan's default.
var UniPCSolver = Solver{
	Name: "unipc", Card: "UniPC, predictor and corrector of second order (Wan's default); deterministic.",
	Paper: "UniPC", Formula: "predictor and corrector of second order", Cases: []string{"solver.flow_unipc"},
	History: true, Whole: true, Build: fixed(UniPC{Order: 2}.Row),
}
