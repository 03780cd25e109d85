package loss

import (
	"fmt"
	"slices"
	"strings"
)

// Correction is what an objective over tokens does about a sampler that disagrees with the
// trainer: [loss.correction] of a file. From the log-probabilities of both it makes the
// weights that tokens are multiplied by, and the mask without what is left out
// (correction.go has both).
//
//	weights = "token", "sequence"   verl's, with its cut of e^d from above
//	least, drop, "geometric"        TRL's and OpenRLHF's, e^d between two bounds
//
// Invariants (tests): where both agree nothing changes, in every setting; what is left out
// has neither a weight nor a place in the mean.
type Correction struct {
	Weights   string  `toml:"weights" enum:"none,token,sequence,geometric" doc:"what has a weight: the ratio of the trainer's probability to the sampler's, of a token or of its answer; geometric: a token's, in answers whose mean is within the bounds"`
	Threshold float64 `toml:"threshold" range:"(0,inf)" doc:"largest weight"`
	Least     float64 `toml:"least" range:"[0,inf)" doc:"smallest weight; 0: any"`
	Drop      bool    `toml:"drop" doc:"what is outside of the bounds has weight 0, not that of the bound"`
	Normalise bool    `toml:"normalise" doc:"make the weights' mean 1"`
	Reject    string  `toml:"reject" doc:"what is left out, such as token_k1,seq_mean_k3; empty: nothing"`
	Bounds    string  `toml:"bounds" doc:"of each rule, such as 0.5_2.0,0.05"`
}

// DefaultCorrection does nothing; turned on, it cuts at the 2 that verl and TRL cut at.
func DefaultCorrection() Correction { return Correction{Weights: "none", Threshold: 2} }

// On says whether anything is corrected.
func (o Correction) On() bool { return o.Reject != "" || o.weighs() }

func (o Correction) weighs() bool { return o.Weights != "none" && o.Weights != "" }

// twoBounds says whether weights are TRL's and OpenRLHF's.
func (o Correction) twoBounds() bool { return o.Least > 0 || o.Drop || o.Weights == "geometric" }

// Check reports options that contradict each other or would do nothing.
func (o Correction) Check(report func(key, problem, hint string)) {
	if o.Reject == "" && o.Bounds != "" {
		report("bounds", "there is no rule whose bounds these are", `for example reject = "token_k1"`)
	}
	if o.Reject != "" {
		if _, err := Rejection(nil, nil, o.Reject, o.Bounds); err != nil {
			key := "bounds"
			for _, name := range strings.Split(o.Reject, ",") {
				if _, _, wrong := ruleOf(strings.TrimSpace(name)); wrong != nil {
					key = "reject"
				}
			}
			report(key, strings.TrimPrefix(err.Error(), "rejection: "), `for example reject = "token_k1,seq_mean_k3" with bounds = "0.5_2.0,0.05"`)
		}
	}
	switch {
	case !o.weighs() && (o.Least > 0 || o.Drop || o.Normalise):
		report("weights", "there are no weights to bound or to normalise", `write weights = "token" or "sequence"`)
	case o.weighs() && o.Least >= o.Threshold:
		report("least", fmt.Sprintf("no weight lies between %v and the threshold %v", o.Least, o.Threshold), "a smaller one; 1 must lie between them")
	case o.twoBounds() && o.Normalise:
		report("normalise", "weights with two bounds are not normalised", "leave out least and drop, or normalise")
	}
}

// Of is the weights (nil: all 1) and the mask that remains.
func (o Correction) Of(trainer, sampler, mask [][]float64) (weights, kept [][]float64, err error) {
	log := zeros(mask)
	for i := range mask {
		for k := range mask[i] {
			if log[i][k] = trainer[i][k] - sampler[i][k]; mask[i][k] == 0 {
				log[i][k] = 0
			}
		}
	}
	kept = mask
	if o.Reject != "" {
		if kept, err = Rejection(log, mask, o.Reject, o.Bounds); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case !o.weighs():
	case o.twoBounds():
		weights, err = Bounded{Level: o.Weights, Drop: o.Drop, Low: o.Least, High: o.Threshold}.Weights(log, mask)
	case o.Weights == "token", o.Weights == "sequence":
		weights, _ = Weights(log, mask, o.Weights == "sequence", o.Threshold, o.Normalise)
	default:
		err = fmt.Errorf("correction: weights %q are not known: none, token, sequence and geometric are", o.Weights)
	}
	for i, row := range weights {
		for k := range row {
			if kept[i][k] == 0 {
				row[k] = 1 // vespo multiplies those of all tokens
			}
		}
	}
	return weights, kept, err
}

// correct puts the correction into what an objective looks at. Weights that are there
// already are multiplied.
func (o TokenLoss) correct(t Tokens) (Tokens, error) {
	if !o.Correction.On() {
		return t, nil
	}
	weights, kept, err := o.Correction.Of(t.Old, t.Sampler, t.Mask)
	if err != nil {
		return t, err
	}
	t.Mask = kept
	switch {
	case weights == nil:
	case t.Weight == nil:
		t.Weight = weights
	default:
		both := slices.Clone(t.Weight)
		for i, row := range weights {
			both[i] = slices.Clone(both[i])
			for k, w := range row {
				both[i][k] *= w
			}
		}
		t.Weight = both
	}
	return t, nil
}
