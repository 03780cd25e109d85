package sde

import (
	"math"
	"testing"
)

// TestRectified: the weights are Flash-GRPO's table,
// of 20 steps and shift 3 on the grid that UniPC had before diffusers 0.36.
func TestRectified(t *testing.T) {
	s := FlowDPM(3, 20, false)
	for i, want := range []float64{7.4770, 7.0414, 6.6112, 6.1867, 5.7682, 5.3559, 4.9502, 4.5513, 4.1596, 3.7754} {
		if got := math.RoundToEven(Rectified(FlowWan(s, i, 1))*1e4) / 1e4; got != want {
			t.Errorf("step %d weighs %v, not %v", i, got, want)
		}
	}
	for u, want := range map[float64]int{0: 3, 0.49: 3, 0.5: 7, 0.999999: 7, 1: 7} {
		if got := OneOf([]int{3, 7}, u); got != want {
			t.Errorf("at %v: step %d, not %d", u, got, want)
		}
	}
}
