package sde

import (
	"math"
	"testing"
)

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
