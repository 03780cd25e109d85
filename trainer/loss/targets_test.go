package loss

import (
	"math"
	"testing"
)

// TestTargets: where the network predicts noise, as a ladder's does, objectives are the published ones of its error
// at the noise, and their gradients agree with finite differences.
func TestTargets(t *testing.T) {
	clean, noise := [][]float64{{0.3, -1}, {0.9, 0.2}}, [][]float64{{-0.4, 0.7}, {-0.4, 0.7}}
	reference := [][]float64{{0, 0.5}, {-0.3, 0.1}}
	at := func(v [][]float64) Noised {
		return Noised{Clean: clean, Noise: noise, Target: noise, Time: []float64{0.4, 0.4}, V: v, VRef: reference}
	}
	v := [][]float64{{-0.2, 0.9}, {-0.5, 0.3}}
	err := func(v []float64, i int) float64 {
		a, b := v[0]-noise[i][0], v[1]-noise[i][1]
		return (a*a + b*b) / 2
	}
	const beta = 3
	// Diffusion-DPO, equation 14: -log σ(-β/2·(model difference - reference's difference))
	inside := -beta / 2. * ((err(v[0], 0) - err(v[1], 1)) - (err(reference[0], 0) - err(reference[1], 1)))
	if got, want := DPO(at(v), [][2]int{{0, 1}}, beta).Loss, math.Log1p(math.Exp(-inside)); math.Abs(got-want) > 1e-14 {
		t.Errorf("dpo is %v, not %v", got, want)
	}
	weights := []float64{0.7, -0.2}
	if got, _ := WeightedFlow(at(v), weights); math.Abs(got-(weights[0]*err(v[0], 0)+weights[1]*err(v[1], 1))/2) > 1e-14 {
		t.Errorf("rwr is %v", got)
	}
	for name, of := range map[string]func(v [][]float64) (float64, [][]float64){
		"dpo": func(v [][]float64) (float64, [][]float64) {
			r := DPO(at(v), [][2]int{{0, 1}}, beta)
			return r.Loss, r.GradV
		},
		"rwr": func(v [][]float64) (float64, [][]float64) { return WeightedFlow(at(v), weights) },
	} {
		_, grad := of(v)
		for i := range v {
			for e := range v[i] {
				moved := func(by float64) float64 {
					w := [][]float64{{v[0][0], v[0][1]}, {v[1][0], v[1][1]}}
					w[i][e] += by
					l, _ := of(w)
					return l
				}
				if slope := (moved(1e-6) - moved(-1e-6)) / 2e-6; math.Abs(slope-grad[i][e]) > 1e-8 {
					t.Errorf("%s: slope %v, gradient %v", name, slope, grad[i][e])
				}
			}
		}
	}
	_, grad := DGPO{Beta: 1, GroupSize: 2}.Of(at([][]float64{{-0.4, 0.7}, {-0.4, 0.7}}), weights, []int{0, 0})
	for i := range grad {
		for _, g := range grad[i] {
			if g != 0 {
				t.Errorf("dgpo: the network is right, and its gradient is %v", grad)
			}
		}
	}
}
