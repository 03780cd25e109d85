package loss

import (
	"strings"
	"testing"
)

// TestForms: an objective is computed in exactly one way, and one that is not in the table is refused.
func TestForms(t *testing.T) {
	for _, o := range Objectives() {
		if o.Name == "" || o.Card == "" || o.Paper == "" || o.Formula == "" || o.Pictures == nil && o.Tokens == nil {
			t.Errorf("%q lacks a card, a paper, a formula, or a form", o.Name)
		}
		for _, f := range []*Form{o.Pictures, o.Tokens} {
			if f == nil {
				continue
			}
			ways := 0
			for _, has := range []bool{f.Steps != nil, f.Noised != nil, f.Learns == RewardSlope, f.Token != nil, f.Whole != nil, f.As != nil, f.Written()} {
				if has {
					ways++
				}
			}
			if ways != 1 || f.Learns == Nothing || f.OfTokens() != (f == o.Tokens) {
				t.Errorf("%s is computed in %d ways, from source %d", o.Name, ways, f.Learns)
			}
		}
	}
	o := DefaultTokens()
	o.Objective = "new"
	one := [][]float64{{1}}
	if r, err := o.of(Tokens{LogProb: one, Old: one, Advantage: one, Mask: one}); err == nil || !strings.Contains(err.Error(), `"new" is not known`) {
		t.Errorf("an objective that is not in the table has the loss %v, %v", r.Loss, err)
	}
}
