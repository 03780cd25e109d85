package loss

// WeightedFlow is flow matching with a weight a sample: mean of A·(v - target)² over
// everything, target the velocity e - x0 of a flow, or what a ladder's network predicts. The weight is 1 for
// fine-tuning, 1 or 0 for the best of a group, the reward for reward-weighted regression.
func WeightedFlow(t Noised, weights []float64) (loss float64, grad [][]float64) {
	grad = AddWeightedFlow(&loss, t, weights, len(t.V))
	return loss, grad
}

// AddWeightedFlow adds rows to a loss, of so many in all, and is the gradient at their outputs.
func AddWeightedFlow(loss *float64, t Noised, weights []float64, rows int) (grad [][]float64) {
	grad = zeros(t.V)
	for i, v := range t.V {
		n := float64(len(v) * rows)
		for e := range v {
			d := v[e] - t.target(i, e)
			*loss += weights[i] * d * d / n
			grad[i][e] = 2 * weights[i] * d / n
		}
	}
	return grad
}

// weighted is flow matching with advantages as weights: reward-weighted regression, or, where the
// estimator is "best", fine-tuning on the best.
func weighted(Options, int) NoisedLoss {
	return func(times int, groups []int, advantages []float64) Walk {
		var v Verdict
		return Walk{
			Next: func(n Noised) ([][]float64, error) {
				return AddWeightedFlow(&v.Loss, n, repeated(advantages, len(n.V)), times*len(groups)), nil
			},
			Verdict: func() Verdict { return v },
		}
	}
}

// RWRObjective is reward-weighted regression.
var RWRObjective = Objective{
	Name: "rwr", Card: "Matching errors weighted by the reward (reward-weighted regression).",
	Paper: "reward-weighted regression", Formula: "mean of r·d", Cases: []string{"loss.weighted_fm"},
	Pictures: &Form{Learns: NoisedSamples, Needs: Advantages, Options: Forward{}, Noised: weighted},
}

// SFTObjective is fine-tuning on the best, and on conversations.
var SFTObjective = Objective{
	Name: "sft", Card: "Matching errors of the chosen samples (fine-tuning on the best). Of an episode: the cross entropy of a file's conversations (rollout.lessons).",
	Paper: "fine-tuning on the best; of an episode cross entropy", Formula: "mean of A·d; of an episode -lp of each trained token", Cases: []string{"loss.weighted_fm", "sft.loss", "sft.tokens", "methods.loss_chord"},
	Pictures: &Form{Learns: NoisedSamples, Needs: Advantages, Options: Forward{}, Noised: weighted},
	Tokens:   &Form{Learns: WrittenTokens, Options: LessonOptions{}, Numbers: []string{"nll", "token_probability"}},
}
