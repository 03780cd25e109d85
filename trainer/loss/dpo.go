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
	out := DPOResult{GradV: zeros(t.V)}
	gain := make([]float64, len(t.V)) // err - ref
	for i, v := range t.V {
		for e := range v {
			a, b := v[e]-t.target(i, e), t.VRef[i][e]-t.target(i, e)
			gain[i] += (float64(a*a) - float64(b*b)) / float64(len(v))
		}
	}
	n := float64(len(pairs))
	for _, p := range pairs {
		s := -beta / 2 * (gain[p[0]] - gain[p[1]])
		out.Inside = append(out.Inside, s)
		out.Loss += softplus(-s) / n
		out.Margin += s / n
		if s > 0 {
			out.Accuracy += 1 / n
		}
		byGain := sigmoid(-s) * beta / 2 / n
		for side, sign := range []float64{1, -1} {
			i := p[side]
			for e := range t.V[i] {
				out.GradV[i][e] += float64(float64(sign*byGain) * 2 * (t.V[i][e] - t.target(i, e)) / float64(len(t.V[i])))
			}
		}
	}
	return out
}

func sigmoid(x float64) float64 { return 1 / (1 + portable.Exp(-x)) }

// softplus is log(1 + e^x).
func softplus(x float64) float64 { return math.Max(x, 0) + portable.Log1p(portable.Exp(-math.Abs(x))) }
