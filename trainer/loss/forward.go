package loss

import (
	"slices"

	"github.com/darkroom-rl/darkroom/sde"
)

// Forward is the options of objectives on finished samples that are noised anew (the forward
// process): nft.go, awm.go, dpo.go, dgpo.go, crd.go, and the weighted flow matching below (RWR, SFT).
type Forward struct {
	NoisedTimes
	Draw   string  `toml:"time_draw" enum:"schedule,permutation,uniform,logit_normal" doc:"where these times are drawn: among the sampler's, one in each part of them; among the sampler's, none of them twice (of flows, DiffusionNFT); anywhere; or most in the middle. The last two are shifted by time_shift"`
	Range  [2]int  `toml:"time_range" range:"[0,1000]" of:"time_draw=schedule,permutation" doc:"the first of the sampler's steps whose times are drawn, and the one after the last (AWM, of flows); [0, 0]: all"`
	Mean   float64 `toml:"time_mean" range:"[-100,100]" of:"time_draw=logit_normal" doc:"of logit_normal: the normal's mean; above 0 is towards noise"`
	Spread float64 `toml:"time_std" range:"(0,100]" of:"time_draw=logit_normal" doc:"of logit_normal: the normal's deviation"`
	Shift  float64 `toml:"time_shift" range:"(0,1000]" of:"time_draw=uniform,logit_normal" doc:"shift of drawn times towards noise; 1: none"`
}

// NoisedTimes is how often a finished sample is noised.
type NoisedTimes struct {
	Times int `toml:"times" range:"[1,1000]" doc:"times that a final sample is noised to"`
}

// ImplicitOptions are the options of objectives with policies that a network implies.
type ImplicitOptions struct {
	Beta float64 `toml:"beta" range:"(0,inf)" doc:"of nft, dpo and dgpo: how far the implicit policies lie apart; of crd: scale of the network's own rewards"`
}

// AdvantageCut is the bound of advantages on noised samples.
type AdvantageCut struct {
	AdvClip float64 `toml:"adv_clip" range:"(0,inf)" doc:"of nft, crd and awm: what advantages are cut to"`
}

// DefaultForward is DiffusionNFT's.
func DefaultForward() Forward {
	return Forward{NoisedTimes: NoisedTimes{Times: 1}, Draw: "schedule", Spread: 1, Shift: 1}
}

// Sigma is the time of a draw u in [0, 1), of which smaller ones are noisier: the interval of the sampler's
// sigmas, from 1 down, that it falls into, or a drawn one (AWM, SD3). A stratified u stays stratified.
// Invariants (tests): it never rises with u, and is above 0 and at most 1.
func (o Forward) Sigma(u float64, sigmas []float64) float64 {
	switch o.Draw {
	case "uniform":
		return sde.Shift(o.Shift, 1-u)
	case "logit_normal":
		return sde.LogitNormal(sde.Quantile(1-u), o.Mean, o.Spread, o.Shift)
	}
	return sigmas[min(int(u*float64(len(sigmas))), len(sigmas)-1)]
}

// Within are the sampler's sigmas that times are drawn among.
func (o Forward) Within(sigmas []float64) []float64 {
	if o.Range == [2]int{} {
		return sigmas
	}
	return sigmas[min(o.Range[0], len(sigmas)-1):min(o.Range[1], len(sigmas))]
}

// Noised is the input of objectives on noised samples, a row a sample.
type Noised struct {
	Clean, Noise       [][]float64
	Time               []float64
	V, VOld, VRef, EMA [][]float64 // the network's outputs
	Target             [][]float64 // the wanted output; nil: the velocity of a flow, Noise - Clean
}

// target is the network's wanted output.
func (n Noised) target(i, e int) float64 {
	if n.Target != nil {
		return n.Target[i][e]
	}
	return n.Noise[i][e] - n.Clean[i][e]
}

// targets are the target of every row.
func (n Noised) targets() [][]float64 {
	all := zeros(n.V)
	for i, row := range all {
		for e := range row {
			row[e] = n.target(i, e)
		}
	}
	return all
}

// Rows are those from one number to another.
func (n Noised) Rows(from, to int) Noised {
	part := func(x [][]float64) [][]float64 {
		if x == nil {
			return nil
		}
		return x[from:to]
	}
	return Noised{Clean: part(n.Clean), Noise: part(n.Noise), Time: n.Time[from:to], V: part(n.V), VOld: part(n.VOld), VRef: part(n.VRef),
		EMA: part(n.EMA), Target: part(n.Target)}
}

// repeated is x over and over, n numbers.
func repeated(x []float64, n int) []float64 { return slices.Repeat(x, n/len(x)) }

// A Walk is an objective on noised samples that goes from time to time, so that the network's outputs at a few of
// them lie in memory at once. Its sums go on where they ended: whatever is seen at once, the loss and the gradients
// have the bits of one look at all times (test).
type Walk struct {
	// Next is the gradient at the outputs of the next times: of all samples at a time, before those of the time after it.
	Next func(n Noised) (grad [][]float64, err error)
	// Result is the loss, after all times.
	Result func() WalkResult
}

// A WalkResult is a loss over finished samples.
type WalkResult struct {
	Loss    float64
	Metrics map[string][]float64
}

// WeightedFlow is flow matching with a weight a sample: mean of A·(v - target)² over everything, target the velocity
// e - x0 of a flow, or the prediction of a ladder's network. The weight is 1 for fine-tuning, 1 or 0 for the best of
// a group, the reward for reward-weighted regression.
func WeightedFlow(t Noised, weights []float64) (loss float64, grad [][]float64) {
	grad = AddWeightedFlow(&loss, t, weights, len(t.V))
	return loss, grad
}

// AddWeightedFlow adds rows to a loss, of `rows` in all, and is the gradient at their outputs.
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
		var v WalkResult
		return Walk{
			Next: func(n Noised) ([][]float64, error) {
				return AddWeightedFlow(&v.Loss, n, repeated(advantages, len(n.V)), times*len(groups)), nil
			},
			Result: func() WalkResult { return v },
		}
	}
}

// RWRObjective is reward-weighted regression.
var RWRObjective = Objective{
	Name: "rwr", Card: "Matching errors weighted by the reward (reward-weighted regression).",
	Paper: "reward-weighted regression", Formula: "mean of r·d", Cases: []string{"loss.weighted_fm"},
	Pictures: &Form{Learns: NoisedSamples, Needs: Advantages, Options: Forward{}, Noised: weighted},
}

// SFT is the name of SFTObjective.
const SFT = "sft"

// SFTObjective is fine-tuning on the best, and on conversations.
var SFTObjective = Objective{
	Name: SFT, Card: "Matching errors of the chosen samples (fine-tuning on the best). Of an episode: the cross entropy of a file's conversations (rollout.lessons).",
	Paper: "fine-tuning on the best; of an episode cross entropy", Formula: "mean of A·d; of an episode -lp of each trained token", Cases: []string{"loss.weighted_fm", "sft.loss", "sft.tokens", "methods.loss_chord"},
	Pictures: &Form{Learns: NoisedSamples, Needs: Advantages, Options: Forward{}, Noised: weighted},
	Tokens:   &Form{Learns: WrittenTokens, Options: LessonOptions{}, Numbers: []string{"nll", "token_probability"}},
}
