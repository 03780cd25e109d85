package loss

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
)

// Diffusion-DPO (Wallace et al., 2024): of a pair (winner, loser) with one noise and time,
//
//	L = -mean log σ(-β/2·[(err_w - ref_w) - (err_l - ref_l)]),  err = mean (v - target)²
//
// The target is the noise on a ladder that predicts it, as published for Stable Diffusion 1.5, and the velocity
// e - x0 of a flow (Flow-DPO).
//
// Invariant (test): a policy that is its reference has log 2.

// DPOResult also has the argument of the sigmoid.
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

// DPOInside is the argument of the sigmoid for some pairs, of `all` in all, and the gradient at their rows' outputs.
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

// noisedDPO is DPO between the best and the worst of every group.
func noisedDPO(o Options, _ int) NoisedLoss {
	return func(times int, groups []int, advantages []float64) Walk {
		pairs := advantage.Pairs(groups, advantages, 0)
		var inside [][]float64 // by time
		return Walk{
			Next: func(n Noised) (all [][]float64, err error) {
				if len(pairs) == 0 {
					return nil, fmt.Errorf("no prompt has two samples to prefer one of")
				}
				for row := 0; row < len(n.V); row += len(groups) {
					s, grad := DPOInside(n.Rows(row, row+len(groups)), pairs, o.Beta, times*len(pairs))
					inside, all = append(inside, s), append(all, grad...)
				}
				return all, nil
			},
			Result: func() WalkResult {
				var each []float64 // of a pair, all times
				for p := range pairs {
					for _, at := range inside {
						each = append(each, at[p])
					}
				}
				v := DPOSums(each)
				return WalkResult{Loss: v.Loss, Metrics: map[string][]float64{"accuracy": {v.Accuracy}, "margin": {v.Margin}}}
			},
		}
	}
}

// DPOObjective is Diffusion-DPO, Flow-DPO, and DPO of written answers.
var DPOObjective = Objective{
	Name: "dpo", Card: "Preference of the better of two samples over the worse (Diffusion-DPO, Flow-DPO). Of an episode: of the better of two answers in a file's rows (rollout.lessons, loss.preference; DPO and its kin, MPO, RPO).",
	Paper: "Diffusion-DPO (Wallace et al., 2024), Flow-DPO; of an episode DPO (Rafailov et al., 2023)", Formula: "-log σ(-β/2·((d - d_ref) of the better - (d - d_ref) of the worse)); of an episode -log σ(β(Δ_better - Δ_worse)), Δ = lp - lp_ref",
	Cases: []string{"loss.dpo", "select.dpo_pairs", "methods.loss_preference"},
	Pictures: &Form{
		Learns: NoisedSamples, Needs: Advantages | SamplePairs | Reference,
		Options: struct {
			Forward
			ImplicitOptions
			advantage.PairOptions
		}{},
		Words:   betaWords,
		Numbers: []string{"accuracy", "margin"},
		Noised:  noisedDPO,
	},
	Tokens: &Form{
		Learns: JudgedAnswers, Needs: AnswerPairs | Reference,
		Options: struct {
			PairForm
			PairWeights
			LessonOptions
		}{},
		Words:   func(o Options) string { return o.Preference.words(true) },
		Numbers: []string{"accuracy", "margin", "chosen", "rejected", "nll"},
	},
}

// betaWords are how far the implicit policies lie apart.
func betaWords(o Options) string { return fmt.Sprintf(", β %v", o.Beta) }
