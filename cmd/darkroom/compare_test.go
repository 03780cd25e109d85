package main

import (
	"testing"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// TestBetter: a run is ahead where the interval of the difference is on one side of 0, and one prompt has no interval.
func TestBetter(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		prompts   int
		want      string
	}{
		{0.01, 0.2, 16, "B is higher"},
		{-0.2, -0.01, 16, "A is higher"},
		{-0.1, 0.2, 16, "no difference beyond chance"},
		{0, 0.2, 16, "no difference beyond chance"},
		{-0.2, 0, 16, "no difference beyond chance"},
		{0, 0, 16, "no difference beyond chance"},
		{0.5, 0.5, 1, ""},
		{0, 0, 0, ""},
	} {
		if got := better(ledger.Measure{Low: c.low, High: c.high, Prompts: c.prompts}); got != c.want {
			t.Errorf("%v to %v of %d prompts: %q, want %q", c.low, c.high, c.prompts, got, c.want)
		}
	}
}
