package loss

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// Diffusion-DPO (Wallace et al., 2024): of a pair (winner, loser) with one noise and time,
//
//	L = -mean log σ(-β/2·[(err_w - ref_w) - (err_l - ref_l)]),  err = mean (v - target)²
//
// The target is the noise on a ladder that predicts it, as published for Stable Diffusion 1.5, and the velocity
// e - x0 of a flow (Flow-DPO).
//
// Invariant (test): a policy that is its reference has log 2.

// DPOResult also has what is inside the sigmoid.
type DPOResult struct {
	Loss, Accuracy, Margin float64
	Inside                 []float64
	GradV                  [][]float64
}

// DPO is the objective over pairs of rows.
func DPO(t Noised, pairs [][2]int, beta float64) DPOResult {
	inside, grad := DPOInside(t, pairs, beta, len(pairs))
	out := DPOSums(inside)
	out.GradV = grad
	return out
}

// DPOSums are the sums of a result over all pairs.
func DPOSums(inside []float64) DPOResult {
	out := DPOResult{Inside: inside}
	n := float64(len(inside))
	for _, s := range inside {
		out.Loss += softplus(-s) / n
		out.Margin += s / n
		if s > 0 {
			out.Accuracy += 1 / n
		}
	}
	return out
}

// DPOInside is what some pairs, of so many in all, have inside the sigmoid, and the gradient at their rows' outputs.
func DPOInside(t Noised, pairs [][2]int, beta float64, all int) (inside []float64, grad [][]float64) {
	grad = zeros(t.V)
	gain := make([]float64, len(t.V)) // err - ref
	for i, v := range t.V {
		for e := range v {
			a, b := v[e]-t.target(i, e), t.VRef[i][e]-t.target(i, e)
			gain[i] += (float64(a*a) - float64(b*b)) / float64(len(v))
		}
	}
	n := float64(all)
	for _, p := range pairs {
		s := -beta / 2 * (gain[p[0]] - gain[p[1]])
		inside = append(inside, s)
		byGain := sigmoid(-s) * beta / 2 / n
		for side, sign := range []float64{1, -1} {
			i := p[side]
			for e := range t.V[i] {
				grad[i][e] += float64(float64(sign*byGain) * 2 * (t.V[i][e] - t.target(i, e)) / float64(len(t.V[i])))
			}
		}
	}
	return inside, grad
}

func sigmoid(x float64) float64 { return 1 / (1 + portable.Exp(-x)) }

// softplus is log(1 + e^x).
func softplus(x float64) float64 { return math.Max(x, 0) + portable.Log1p(portable.Exp(-math.Abs(x))) }
