package advantage

import (
	"math"
	"strings"
	"testing"
)

func TestLogGamma(t *testing.T) {
	for _, x := range []float64{1, 1.0001, 1.5, 2, 3.75, 9.999, 10, 33.3, 1e3, 1e6} {
		want, _ := math.Lgamma(x)
		if got := logGamma(x); math.Abs(got-want) > 5e-15*max(1, math.Abs(want)) {
			t.Errorf("ln Γ(%g) = %.17g, want %.17g", x, got, want)
		}
	}
}

// TestBeta: a group's advantages add up to 0, and the rewards' range is a matter of units.
func TestBeta(t *testing.T) {
	ids := []int{0, 0, 0, 1, 1, 1, 2, 2, 2}
	r := []float64{1, 0, 0, 1, 1, 0, 0.5, 0.25, 0}
	a, err := Beta(ids, r, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	shifted := make([]float64, len(r))
	for i, v := range r {
		shifted[i] = 4*v - 2
	}
	b, err := Beta(ids, shifted, -2, 2)
	if err != nil {
		t.Fatal(err)
	}
	for g := range 3 {
		if s := a[3*g] + a[3*g+1] + a[3*g+2]; math.Abs(s) > 1e-15 {
			t.Errorf("the advantages of group %d add up to %g", g, s)
		}
	}
	for i := range a {
		if math.Abs(a[i]-b[i]) > 1e-14 {
			t.Errorf("sample %d has %g, and %g in other units", i, a[i], b[i])
		}
	}
	if a, _ := Beta([]int{0, 0, 1, 1}, []float64{1, 0, 0, 1}, 0, 1); a[0] != 0.5 || a[1] != -0.5 {
		t.Errorf("equal rates give %v, want ±0.5", a)
	}
	if _, err := Beta(ids, r, 0, 0.5); err == nil || !strings.Contains(err.Error(), "advantage.range") {
		t.Errorf("rewards outside the range: %v", err)
	}
}
