package sde

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Stratified times have one in each stratum, whatever the draws; every kind stays inside
// its range.
func TestTimes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const n, low, high = 8, 0.1, 0.7
	for _, kind := range []string{"uniform", "logit_normal_stratified", "logit_normal"} {
		u := make([]float64, n)
		for i := range u {
			u[i] = r.Float64()
			if kind == "logit_normal" {
				u[i] = 40 * r.NormFloat64()
			}
		}
		times, err := Times(kind, n, low, high, 1, u, r.Perm(n))
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range times {
			if x < 1000*(1-high)-1e-9 || x > 1000*(1-low)+1e-9 {
				t.Errorf("%s: %v is outside", kind, x)
			}
		}
		if kind != "uniform" {
			continue
		}
		slices.Sort(times)
		slices.Reverse(times)
		for j, x := range times {
			if s := ((1 - x/1000) - low) / (high - low) * n; int(s) != j {
				t.Errorf("the stratum of time %d is %v", j, s)
			}
		}
	}
	if _, err := Times("odd", 1, 0, 1, 1, []float64{0}, []int{0}); err == nil {
		t.Error("times of kind odd pass")
	}
}

// The middle of the normal is the middle of time, mirrored draws are mirrored times, and
// a shift moves them towards noise.
func TestLogitNormal(t *testing.T) {
	if got := LogitNormal(0, 0, 1, 1); got != 0.5 {
		t.Errorf("the middle is %v", got)
	}
	for _, u := range []float64{0.3, 1, 2.5} {
		if sum := LogitNormal(u, 0, 1, 1) + LogitNormal(-u, 0, 1, 1); math.Abs(sum-1) > 1e-15 {
			t.Errorf("±%v add up to %v", u, sum)
		}
		if LogitNormal(u, 0, 1, 3) <= LogitNormal(u, 0, 1, 1) {
			t.Errorf("a shift of 3 does not move %v towards noise", u)
		}
	}
}

// cosmap is a density over [0, 1]: it integrates to 1.
func TestLossWeight(t *testing.T) {
	sum := 0.0
	const n = 1000
	for i := range n {
		sum += LossWeight("cosmap", (float64(i)+0.5)/n) / n
	}
	if math.Abs(sum-1) > 1e-6 {
		t.Errorf("cosmap integrates to %v", sum)
	}
	if LossWeight("sigma_sqrt", 0.5) != 4 || LossWeight("none", 0.5) != 1 {
		t.Error("sigma_sqrt is s⁻², and none is 1")
	}
}
