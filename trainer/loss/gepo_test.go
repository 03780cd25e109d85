package loss

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestGEPOGroups: a group's expectation is its own affair, and equal answers have the ratio 1.
func TestGEPOGroups(t *testing.T) {
	x := answers(rand.New(rand.NewPCG(5, 2)))
	x.Weight = nil
	alone := expectations(x)
	x.Group = []int{0, 0, 1, 1}
	apart := expectations(x)
	if apart[0] != apart[1] || apart[2] != apart[3] || apart[0] == apart[2] || apart[0] == alone[0] {
		t.Errorf("two groups are expected to be %v, and as one %v", apart, alone)
	}
	x.Old[1], x.Mask[1] = x.Old[0], x.Mask[0]
	x.LogProb[0], x.LogProb[1] = x.Old[0], x.Old[0]
	q := math.Exp(answerMean(Tokens{LogProb: x.Old, Old: zeros(x.Old), Mask: x.Mask}, 0))
	if e := expectations(x)[0]; math.Abs(e-q) > 1e-15 {
		t.Errorf("two equal answers of %g are expected to be %g", q, e)
	}
}
