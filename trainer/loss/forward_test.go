package loss

import (
	"math"
	"slices"
	"testing"
)

// TestWithin: AWM draws among the first 0.9 of 14 steps, without the first.
func TestWithin(t *testing.T) {
	grid := []float64{1, 0.9, 0.8, 0.7}
	for _, c := range []struct {
		of   [2]int
		want []float64
	}{{[2]int{}, grid}, {[2]int{1, 3}, grid[1:3]}, {[2]int{1, 12}, grid[1:]}, {[2]int{9, 12}, grid[3:]}} {
		if got := (Forward{Range: c.of}).Within(grid); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.of, got, c.want)
		}
	}
}

// TestSigma: draws fall among the sampler's sigmas, or where the distribution has them.
func TestSigma(t *testing.T) {
	grid := []float64{1, 0.75, 0.5}
	for _, c := range []struct {
		o       Forward
		u, want float64
	}{
		{Forward{Draw: "schedule"}, 0, 1}, {Forward{Draw: "schedule"}, 0.34, 0.75}, {Forward{Draw: "schedule"}, 0.999999, 0.5}, {Forward{}, 0.5, 0.75},
		{Forward{Draw: "uniform", Shift: 1}, 0.25, 0.75}, {Forward{Draw: "uniform", Shift: 3}, 0.5, 0.75},
		{Forward{Draw: "logit_normal", Spread: 1, Shift: 1}, 0.5, 0.5}, {Forward{Draw: "logit_normal", Spread: 1, Shift: 3}, 0.5, 0.75},
		{Forward{Draw: "logit_normal", Mean: math.Log(3), Spread: 2, Shift: 1}, 0.5, 0.75},
	} {
		if got := c.o.Sigma(c.u, grid); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v at %v: %v, want %v", c.o, c.u, got, c.want)
		}
	}
	for _, o := range []Forward{{Draw: "schedule"}, {Draw: "uniform", Shift: 5}, {Draw: "logit_normal", Mean: -1, Spread: 0.5, Shift: 2}} {
		before, middle := 2.0, 0.0
		for i := range 1000 {
			s := o.Sigma(float64(i)/1000, grid)
			if !(s <= before && s > 0 && s <= 1) {
				t.Errorf("%+v at %d: %v after %v", o, i, s, before)
			}
			before, middle = s, middle+s/1000
		}
		if middle < 0.2 || middle > 0.9 {
			t.Errorf("%+v: mean %v", o, middle)
		}
	}
}
