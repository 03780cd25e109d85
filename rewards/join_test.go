package rewards

import (
	"math"
	"slices"
	"testing"
)

// TestJoin: every rule on numbers that can be checked by hand, missing scores, and weights of prompts.
func TestJoin(t *testing.T) {
	scores := [][]float64{{0.5, 0, 0.25, missing, -1}, {0.25, 0.5, 1, 0.5, 0.5}}
	own := []map[string]float64{nil, {"a": 0}, {"b": 2}, {"a": 0}, {"a": 0, "b": 0}}
	for _, c := range []struct {
		name string
		c    Combination
		own  []map[string]float64
		want []float64
	}{
		{"a product", Combination{By: "product"}, nil, []float64{0.125, 0, 0.25, missing, 0}},
		{"the geometric mean", Combination{By: "product", Shares: true}, nil, []float64{math.Sqrt(0.125), 0, 0.5, missing, 0}},
		{"the least", Combination{By: "least"}, nil, []float64{0.25, 0, 0.25, missing, -1}},
		{"the harmonic mean", Combination{By: "harmonic"}, nil, []float64{1.0 / 3, 0, 0.4, missing, 0}},
		{"an ensemble", Combination{By: "ensemble", Disagreement: 2}, nil, []float64{0.375 - 0.03125, 0.25 - 0.125, 0.625 - 0.28125, missing, -0.25 - 1.125}},
		{"an ensemble that may disagree", Combination{By: "ensemble"}, nil, []float64{0.375, 0.25, 0.625, missing, -0.25}},
		{"what is there", Combination{By: "least", Partial: true}, nil, []float64{0.25, 0, 0.25, 0.5, -1}},
		{"a sum with weights of prompts", Combination{By: "sum"}, own, []float64{0.75, 0.5, 2.25, 0.5, missing}},
		{"a product with them", Combination{By: "product"}, own, []float64{0.125, 0.5, 0.25, 0.5, missing}},
		{"shares of them", Combination{Shares: true}, own[:4], []float64{0.375, 0.5, 0.75, 0.5, -0.25}},
	} {
		c.c.Parts = []Part{{Name: "a", Weight: 1}, {Name: "b", Weight: 1}}
		got, err := c.c.For(c.own, scores)
		if err != nil || !slices.EqualFunc(got, c.want, near) {
			t.Errorf("%s: %v, want %v, %v", c.name, got, c.want, err)
		}
	}
	gated := Combination{By: "least", Parts: []Part{{Name: "a", Weight: 2, Gate: Gate{By: "b", AtLeast: 0.5, Else: 0.1}}, {Name: "b"}}}
	if got, err := gated.Of(scores); err != nil || !slices.EqualFunc(got, []float64{0.2, 0, 0.5, missing, -2}, near) {
		t.Errorf("a gate of weight 0: %v, %v", got, err)
	}
	if _, err := (Combination{By: "most", Parts: gated.Parts}).Of(scores); err == nil {
		t.Error("an unknown rule passes")
	}
}
