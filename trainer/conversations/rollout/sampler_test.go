package rollout

import (
	"math"
	"testing"
)

func TestEntropyOf(t *testing.T) {
	if h := entropyOf([]float64{0.25, 0, 0.25, 0.25, 0.25}); math.Abs(h-math.Log(4)) > 1e-12 {
		t.Errorf("evenly among four: %v", h)
	}
	if h := entropyOf([]float64{0, 1}); h != 0 {
		t.Errorf("of what is certain: %v", h)
	}
}
