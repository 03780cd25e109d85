package loss

import (
	"math"
	"math/rand/v2"
	"testing"
)

// corrections are settings of every kind.
func corrections() map[string]Correction {
	return map[string]Correction{
		"token":       {Weights: "token", Threshold: 2},
		"sequence":    {Weights: "sequence", Threshold: 2},
		"normalised":  {Weights: "token", Threshold: 2, Normalise: true},
		"two bounds":  {Weights: "sequence", Threshold: 1.1, Least: 0.95},
		"dropped":     {Weights: "token", Threshold: 1.2, Least: 0.8, Drop: true},
		"geometric":   {Weights: "geometric", Threshold: 1.05, Least: 0.9},
		"left out":    {Weights: "none", Reject: "token_k1", Bounds: "0.8_1.2"},
		"all of them": {Weights: "token", Threshold: 2, Reject: "token_k1,seq_mean_k3", Bounds: "0.5_2.0,0.05"},
	}
}

// Where the sampler and the trainer agree nothing changes; where they do not, a correction is the same as weights and
// a mask given by hand, for every objective.
func TestCorrectionReachesObjectives(t *testing.T) {
	for name, c := range corrections() {
		for _, objective := range TokenObjectives() {
			x := answers(rand.New(rand.NewPCG(5, 2)))
			x.Weight = nil
			o := DefaultTokens()
			o.Objective = objective
			if objective == "distill" { // a distance is not weighed: Check
				continue
			}
			plain, err := o.Of(x)
			if err != nil {
				t.Fatal(err)
			}
			o.Correction = c
			same := x
			same.Sampler = x.Old
			got, err := o.Of(same)
			if err != nil || math.Abs(got.Loss-plain.Loss) > 1e-7*(1+math.Abs(plain.Loss)) {
				t.Errorf("%s of %s: loss %v where the sampler agrees, %v without a correction (%v)", name, objective, got.Loss, plain.Loss, err)
			}
			if got, err = o.Of(x); err != nil {
				t.Fatal(err)
			}
			byHand := x
			if byHand.Weight, byHand.Mask, err = c.Of(x.Old, x.Sampler, x.Mask); err != nil {
				t.Fatal(err)
			}
			o.Correction = Correction{}
			want, err := o.Of(byHand)
			if err != nil || got.Loss != want.Loss || got.Loss == plain.Loss {
				t.Errorf("%s of %s: loss %v, by hand %v, without %v (%v)", name, objective, got.Loss, want.Loss, plain.Loss, err)
			}
			// Weights that are there already are multiplied.
			twice := byHand
			twice.Mask = x.Mask
			o.Correction = c
			got, err = o.Of(twice)
			for i, row := range byHand.Weight {
				for k := range row {
					row[k] *= row[k]
				}
				byHand.Weight[i] = row
			}
			o.Correction = Correction{}
			if want, wrong := o.Of(byHand); err != nil || wrong != nil || math.Abs(got.Loss-want.Loss) > 1e-9 {
				t.Errorf("%s of %s: loss %v with weights of its own, by hand %v (%v, %v)", name, objective, got.Loss, want.Loss, err, wrong)
			}
		}
	}
}

func TestCorrectionsByHand(t *testing.T) {
	trainer, sampler, mask := [][]float64{{-1, -2, 0}}, [][]float64{{-1.1, -1.6, 9}}, [][]float64{{1, 1, 0}} // d = 0.1, -0.4
	for name, c := range map[string]struct{ weights, kept []float64 }{
		"token":       {[]float64{math.Exp(0.1), math.Exp(-0.4), 1}, []float64{1, 1, 0}},
		"sequence":    {[]float64{math.Exp(-0.3), math.Exp(-0.3), 1}, []float64{1, 1, 0}},
		"two bounds":  {[]float64{0.95, 0.95, 1}, []float64{1, 1, 0}},
		"dropped":     {[]float64{math.Exp(0.1), 0, 1}, []float64{1, 1, 0}},
		"geometric":   {[]float64{0, 0, 1}, []float64{1, 1, 0}}, // the mean is -0.15
		"left out":    {nil, []float64{1, 0, 0}},
		"all of them": {[]float64{math.Exp(0.1), math.Exp(-0.4), 1}, []float64{1, 1, 0}},
	} {
		w, kept, err := corrections()[name].Of(trainer, sampler, mask)
		if err != nil || (w == nil) != (c.weights == nil) {
			t.Errorf("%s: %v, %v", name, w, err)
			continue
		}
		for k := range mask[0] {
			if w != nil && math.Abs(w[0][k]-c.weights[k]) > 1e-12 || kept[0][k] != c.kept[k] {
				t.Errorf("%s: weights %v, want %v; mask %v, want %v", name, w, c.weights, kept, c.kept)
				break
			}
		}
	}
}
