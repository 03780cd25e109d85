package optim

import "math"

// The engine's steps, over float64: Muon, and the clip of a gradient's norm. AdamW's twin stands in adamw.go, since
// the head of values learns with it.

// Muon is the twin's settings and its momentum.
type Muon struct {
	WeightDecay, Momentum float64
	Buffer                []float64
}

// Step moves a matrix of cols columns.
func (m *Muon) Step(w, g []float64, cols int, lr float64) {
	if m.Buffer == nil {
		m.Buffer = make([]float64, len(w))
	}
	u := make([]float64, len(w))
	for i := range u {
		m.Buffer[i] = float64(m.Momentum*m.Buffer[i]) + float64((1-m.Momentum)*g[i])
		u[i] = float64(m.Momentum*m.Buffer[i]) + float64((1-m.Momentum)*g[i])
	}
	rows := len(w) / cols
	for i, x := range orthogonal(u, rows, cols) {
		w[i] -= float64(lr*m.WeightDecay*w[i]) + float64(lr*muonScale(rows, cols)*x)
	}
}

// orthogonal is Newton and Schulz's iteration on u [rows, cols].
func orthogonal(u []float64, rows, cols int) []float64 {
	norm := 0.0
	for _, v := range u {
		norm += float64(v * v)
	}
	x := make([]float64, len(u))
	for i, v := range u {
		x[i] = v / max(math.Sqrt(norm), muonEps)
	}
	for range muonRounds {
		x = newtonSchulz(x, rows, cols)
	}
	return x
}

// newtonSchulz is one round: on the smaller side, a X + (b A + c A²) X with A = X Xᵀ, or
// a X + X (b A + c A²) with A = Xᵀ X.
func newtonSchulz(x []float64, rows, cols int) []float64 {
	n, wide := min(rows, cols), rows <= cols
	at := func(i, k int) float64 { // X with its smaller side first
		if wide {
			return x[i*cols+k]
		}
		return x[k*cols+i]
	}
	a, p := make([]float64, n*n), make([]float64, n*n)
	for i := range n {
		for j := range n {
			for k := range max(rows, cols) {
				a[i*n+j] += float64(at(i, k) * at(j, k))
			}
		}
	}
	for i := range n {
		for j := range n {
			square := 0.0
			for k := range n {
				square += float64(a[i*n+k] * a[k*n+j])
			}
			p[i*n+j] = float64(muonCoefficients[1]*a[i*n+j]) + float64(muonCoefficients[2]*square)
		}
	}
	y := make([]float64, len(x))
	for i := range rows {
		for j := range cols {
			v := muonCoefficients[0] * x[i*cols+j]
			for k := range n {
				if wide {
					v += float64(p[i*n+k] * x[k*cols+j])
				} else {
					v += float64(x[i*cols+k] * p[k*n+j])
				}
			}
			y[i*cols+j] = v
		}
	}
	return y
}

// normOf is the length of the whole gradient, over all tensors.
func normOf(grads [][]float64) float64 {
	sum := 0.0
	for _, g := range grads {
		for _, x := range g {
			sum += float64(x * x)
		}
	}
	return math.Sqrt(sum)
}

// clipNorm shortens gradients in place and returns their norm before.
func clipNorm(grads [][]float64, limit float64) (norm float64) {
	norm = normOf(grads)
	scale := ClipScale(norm, limit)
	for _, g := range grads {
		for i := range g {
			g[i] *= scale
		}
	}
	return norm
}
