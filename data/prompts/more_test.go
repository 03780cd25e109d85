package prompts

import (
	"math"
	"testing"
)

// TestMore: prompts that are solved half of the time get nothing, and a harder one never less.
func TestMore(t *testing.T) {
	for _, m := range []More{{By: "equal", Most: 64}, {By: "hard", Most: 64}} {
		for _, divided := range []bool{false, true} {
			before := 0
			for k := 8; k >= 0; k-- {
				n := m.Further(float64(k)/16, 16, divided)
				if k == 8 && n != 0 || n < before || n > 48 {
					t.Errorf("%+v, divided %v: %d further samples at %d of 16, and %d at one more", m, divided, n, k, before)
				}
				before = n
			}
			if n := m.Further(math.NaN(), 16, divided); n != 0 {
				t.Errorf("%+v: %d further samples of a prompt without a score", m, n)
			}
		}
	}
	if n := (More{By: "equal", Most: 12}).Further(0, 16, false); n != 0 {
		t.Errorf("a group that is larger than most got %d", n)
	}
}
