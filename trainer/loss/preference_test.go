package loss

import (
	"math"
	"testing"
)

// TestPreferenceGradient: every form's gradient is that of its differences, mixtures and means over tokens among them.
func TestPreferenceGradient(t *testing.T) {
	a := Answered{Own: []float64{-12, -9, -30, -4}, Reference: []float64{-13, -8.5, -31, -6}, Tokens: []int{7, 3, 11, 2}}
	pairs := [][2]int{{0, 1}, {3, 2}}
	for _, form := range []string{"sigmoid", "robust", "hinge", "ipo", "exo", "nca", "sppo", "apo-zero", "apo-down", "bco"} {
		o := Preference{PairForm: PairForm{form}, Beta: 0.3, PairWeights: PairWeights{Weight: 0.8, Imitate: 0.5}}
		if form == "sigmoid" || form == "robust" || form == "exo" {
			o.Smoothing = 0.1
		}
		if form != "bco" {
			o.Quality = 0.2
		}
		shift := func() *Shift { return &Shift{Mean: 0.2, Batches: 1e9} } // moves so little that differences do not see it
		r, err := o.Pairs(a, pairs, shift())
		if err != nil {
			t.Fatal(err)
		}
		for i := range a.Own {
			sides := [2]float64{}
			for k, d := range []float64{-1e-5, 1e-5} {
				moved := a
				moved.Own = append([]float64(nil), a.Own...)
				moved.Own[i] += d
				other, err := o.Pairs(moved, pairs, shift())
				if err != nil {
					t.Fatal(err)
				}
				sides[k] = other.Loss
			}
			if slope := (sides[1] - sides[0]) / 2e-5; math.Abs(slope-r.Grad[i]) > 1e-7 {
				t.Errorf("%s: the gradient of answer %d is %v, by differences %v", form, i, r.Grad[i], slope)
			}
		}
	}
	if _, err := (Preference{PairForm: PairForm{"other"}}).Pairs(a, pairs, nil); err == nil {
		t.Error("a form that does not exist is computed")
	}
}

// TestPreferenceBegins: a policy that is its reference has log 2, no margin and no accuracy; good and bad answers then
// have one half.
func TestPreferenceBegins(t *testing.T) {
	a := Answered{Own: []float64{-5, -7}, Reference: []float64{-5, -7}, Tokens: []int{2, 3}}
	r, err := DefaultPreference().Pairs(a, [][2]int{{0, 1}}, nil)
	if err != nil || math.Abs(r.Loss-math.Ln2) > 1e-12 || r.Margin != 0 || r.Accuracy != 0 || r.Grad[0] != -0.05 || r.Grad[1] != 0.05 {
		t.Errorf("%+v, %v", r, err)
	}
	if r := DefaultPreference().Good(a, []bool{true, false}, a); math.Abs(r.Loss-0.5) > 1e-12 || r.Distance != 0 || r.Grad[0] != -0.0125 || r.Grad[1] != 0.0125 {
		t.Errorf("%+v", r)
	}
}
