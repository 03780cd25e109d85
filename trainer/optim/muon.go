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
// not nearly singular, whatever the scale of u; the engine's step (Optimizer) stays within rounding
// of a float64 twin.

// muonCoefficients are a, b, c; muonRounds how often they are applied.
var muonCoefficients = [3]float64{3.4445, -4.7750, 2.0315}

const (
	muonRounds = 5
	muonEps    = 1e-7
)

// muonScale is the update's size beside the learning rate.
func muonScale(rows, cols int) float64 { return 0.2 * math.Sqrt(float64(max(rows, cols))) }
