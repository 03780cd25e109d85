package optim

import "math"

// Muon, an update of a matrix W [m, n] with gradient g (Jordan et al. 2024, as in
// torch.optim.Muon with adjust_lr_fn = "match_rms_adamw"):
//
//	b = β b + (1-β) g
//	u = β b + (1-β) g                      (Nesterov)
//	W = W - lr wd W
//	W = W - lr 0.2 sqrt(max(m, n)) orthogonal(u)
//
// where orthogonal(u) brings all singular values near 1 by five rounds of
// X = a X + (b A + c A²) X, A = X Xᵀ, from X = u/‖u‖. The factor 0.2 sqrt(max(m, n))
// gives the update the root mean square that AdamW's has, so that both work with
// one learning rate. It is for the hidden matrices of a network that is trained from
// scratch; tables, norms, biases and the last layer stay with AdamW.
//
// Invariant (tests): singular values of orthogonal(u) lie in [0.6, 1.3] for matrices that are
// not nearly singular, whatever the scale of u; the engine's step (Mover) stays within rounding
// of this one.
type Muon struct {
	WeightDecay, Momentum float64
	Buffer                []float64
}

// muonCoefficients are a, b, c; muonRounds how often they are applied.
var muonCoefficients = [3]float64{3.4445, -4.7750, 2.0315}

const (
	muonRounds = 5
	muonEps    = 1e-7
)

// muonScale is the update's size beside the learning rate.
func muonScale(rows, cols int) float64 { return 0.2 * math.Sqrt(float64(max(rows, cols))) }

// Step moves a matrix of so many columns.
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
