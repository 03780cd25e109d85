package trainer

import (
	"math"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// TestTeaching: the loss is the mean of all trained tokens of an update, in rows of whatever
// lengths, not the mean of rows' means; advantages change nothing; no ratio is said.
func TestTeaching(t *testing.T) {
	a, b := Key{Prompt: 1}, Key{Prompt: 2}
	samples := []Sample{saidSample(a, -1, -2, -3, -4), saidSample(b, -5, -6)}
	p := &speaker{now: map[Key][]float64{a: {-1, -2, -3, -4}, b: {-5, -6}}}
	blame, err := SFT{Aggregate: loss.Aggregate{Mode: "token-mean"}}.Evaluate(p, samples, []float64{7, -7})
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(blame.Loss-21./6) > 1e-12 || blame.Metrics["ratio"] != nil {
		t.Errorf("the loss is %v, ratios are %v", blame.Loss, blame.Metrics["ratio"])
	}
	for i, row := range p.back {
		for k, g := range row {
			if math.Abs(g+1./6) > 1e-15 {
				t.Errorf("the gradient of token %d of row %d is %v", k, i, g)
			}
		}
	}
	blame, err = SFT{Aggregate: loss.Aggregate{Mode: "seq-mean-token-mean"}}.Evaluate(p, samples, nil)
	if err != nil || math.Abs(blame.Loss-(2.5+5.5)/2) > 1e-7 {
		t.Errorf("the mean of rows is %v, %v", blame.Loss, err)
	}
	if _, err := (SFT{Aggregate: loss.Aggregate{Mode: "token-mean"}}).Evaluate(p, []Sample{{}}, nil); err == nil {
		t.Error("a sample that is no episode is learned from")
	}
}
