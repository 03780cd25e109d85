package rewards

import (
	"math"
	"slices"
	"testing"
)

var missing = math.NaN()

func near(a, b float64) bool {
	return math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-12*(1+math.Abs(b))
}

func TestCombination(t *testing.T) {
	layout, ocr := []float64{1, 0, missing, 0.5}, []float64{0.2, 0.4, 0.6, missing}
	both := func(change func(c *Combination)) Combination {
		c := Combination{Parts: []Part{{Name: "layout", Weight: 2}, {Name: "ocr", Weight: 0.5}}}
		change(&c)
		return c
	}
	for _, c := range []struct {
		name string
		c    Combination
		want []float64
	}{
		{"as given", both(func(c *Combination) {}), []float64{2.1, 0.2, missing, missing}},
		{"shares", both(func(c *Combination) { c.Shares = true }), []float64{0.84, 0.08, missing, missing}},
		{"equal shares", both(func(c *Combination) { c.Shares, c.Parts[0].Weight, c.Parts[1].Weight = true, 0, 0 }), []float64{0.6, 0.2, missing, missing}},
		{"what is there", both(func(c *Combination) { c.Partial = true }), []float64{2.1, 0.2, 0.3, 1}},
		{"a penalty", both(func(c *Combination) { c.Parts[1].Weight = -1 }), []float64{1.8, -0.4, missing, missing}},
		{"a range", both(func(c *Combination) { c.Parts[1].Scale = Scale{Kind: "range", Low: 0.3, High: 0.5} }), []float64{1.75, 0.25, missing, missing}},
		{"a clamped range", both(func(c *Combination) { c.Parts[1].Scale = Scale{Kind: "range", Low: 0.3, High: 0.35, Clamp: true} }), []float64{2, 0.5, missing, missing}},
		{"the unit range, clamped", both(func(c *Combination) { c.Parts[0].Scale = Scale{Kind: "range", High: 1, Clamp: true} }), []float64{2.1, 0.2, missing, missing}},
		{"the batch", both(func(c *Combination) {
			c.Parts[0].Weight, c.Parts[1].Weight, c.Parts[1].Scale.Kind = 0, 1, "batch"
		}), []float64{-math.Sqrt(1.5), 0, missing, missing}},
		{"a gate", both(func(c *Combination) { c.Parts[0].Gate = Gate{By: "ocr", AtLeast: 0.4} }), []float64{0.1, 0.2, missing, missing}},
		{"a closed gate", both(func(c *Combination) { c.Parts[1].Gate = Gate{By: "layout", AtLeast: 0.6, Else: -1} }), []float64{2.1, -0.5, missing, 0.5}},
		{"a missing gate", both(func(c *Combination) { c.Partial, c.Parts[1].Gate = true, Gate{By: "layout"} }), []float64{2.1, 0.2, missing, 1}},
	} {
		got, err := c.c.Of([][]float64{layout, ocr})
		if err != nil || !slices.EqualFunc(got, c.want, near) {
			t.Errorf("%s: %v, want %v, %v", c.name, got, c.want, err)
		}
		slices.Reverse(c.c.Parts)
		got, err = c.c.Of([][]float64{ocr, layout})
		if err != nil || !slices.EqualFunc(got, c.want, near) {
			t.Errorf("%s, the other way round: %v, want %v, %v", c.name, got, c.want, err)
		}
	}
}

// Where all rewards of a batch are equal, or all are missing, nothing is divided by 0.
func TestBatchWithoutDeviation(t *testing.T) {
	c := Combination{Parts: []Part{{Name: "a", Weight: 1, Scale: Scale{Kind: "batch"}}}}
	for _, r := range [][]float64{{0.1, 0.1, 0.1, missing}, {missing, missing}, {}} {
		got, err := c.Of([][]float64{r})
		for i, v := range got {
			if want := r[i] - r[i]; err != nil || !near(v, want) {
				t.Errorf("%v became %v, %v", r, got, err)
			}
		}
	}
}

func TestCombinationRefuses(t *testing.T) {
	a, b := []float64{1, 2}, []float64{3, 4}
	parts := []Part{{Name: "a", Weight: 1}, {Name: "b", Weight: -1}}
	for name, c := range map[string]struct {
		c      Combination
		scores [][]float64
	}{
		"no rewards":          {Combination{}, nil},
		"a reward too few":    {Combination{Parts: parts}, [][]float64{a}},
		"a sample too few":    {Combination{Parts: parts}, [][]float64{a, b[1:]}},
		"shares of nothing":   {Combination{Parts: parts, Shares: true}, [][]float64{a, b}},
		"a gate that is gone": {Combination{Parts: []Part{{Name: "a", Gate: Gate{By: "c"}}}}, [][]float64{a}},
	} {
		if got, err := c.c.Of(c.scores); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestCheck(t *testing.T) {
	for key, c := range map[string]Combination{
		"":                              {Parts: []Part{{Name: "a", Weight: 1, Gate: Gate{By: "b"}}, {Name: "b"}}},
		"parts[0].scale.low|scale.high": {Parts: []Part{{Name: "a", Scale: Scale{Kind: "range"}}}},
		"parts[0].gate.by":              {Parts: []Part{{Name: "a", Gate: Gate{By: "b"}}}},
		"parts[1].gate.by":              {Parts: []Part{{Name: "b"}, {Name: "a", Gate: Gate{By: "a"}}}},
		"shares":                        {Parts: []Part{{Name: "a", Weight: -1}}, Shares: true},
	} {
		said := ""
		c.Check(func(key, problem, hint string) { said += key })
		if said != key {
			t.Errorf("%+v: complains of %q, want %q", c, said, key)
		}
	}
}

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
