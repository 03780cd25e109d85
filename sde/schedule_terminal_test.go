package sde

import (
	"math"
	"testing"
)

// TestTerminalOfOneStep: a grid of one step begins and ends at 1, and cannot be stretched to another end: upstream's is
// 0/0, and every latent after it.
func TestTerminalOfOneStep(t *testing.T) {
	o := DefaultFlow()
	o.Terminal = 0.02
	if s, err := Flow(o, 1, []float64{1}, 0); err == nil {
		t.Errorf("%+v", s)
	}
	if s, err := Flow(o, 2, []float64{1, 0.5}, 0); err != nil || math.Abs(s.Sigmas[1]-0.02) > 1e-15 {
		t.Errorf("%+v, %v", s, err)
	}
}
