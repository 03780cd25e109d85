package loss

import (
	"strings"
	"testing"
)

// TestTokenKinds: an objective is computed in exactly one way, and one without a row is refused.
func TestTokenKinds(t *testing.T) {
	for _, k := range tokenKinds() {
		ways := 0
		for _, has := range []bool{k.token != nil, k.whole != nil, k.as != nil} {
			if has {
				ways++
			}
		}
		if ways != 1 {
			t.Errorf("%s is computed in %d ways", k.name, ways)
		}
	}
	o := DefaultTokens()
	o.Objective = "new"
	one := [][]float64{{1}}
	if r, err := o.of(Tokens{LogProb: one, Old: one, Advantage: one, Mask: one}); err == nil || !strings.Contains(err.Error(), `"new" is not known`) {
		t.Errorf("an objective without a row has the loss %v, %v", r.Loss, err)
	}
}
