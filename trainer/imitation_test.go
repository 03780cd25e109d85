package trainer

import (
	"errors"
	"math"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// gathering adds up gradients, as parameters do.
type gathering struct {
	*speaker
	sum map[Key][]float64
}

func (g *gathering) Eval(w Weights, at []Point) (Forward, error) {
	a, err := g.speaker.Eval(w, at)
	a.Back = func(grads [][]float64) error {
		for i, row := range grads {
			sum := g.sum[at[i].Key]
			if sum == nil {
				sum = make([]float64, len(row))
			}
			for k, v := range row {
				sum[k] += v
			}
			g.sum[at[i].Key] = sum
		}
		return nil
	}
	return a, err
}

// TestImitating: an update's gradient is the sum of both parts by their shares; with a share of 0 it is that of the
// rollouts, and nothing is read; without samples it is the share of the written examples.
func TestImitating(t *testing.T) {
	blame := func(o Objective, samples []Sample) (LossResult, map[Key][]float64) {
		t.Helper()
		rolled, p := spokenBatch()
		written := Key{Prompt: 9}
		p.now[written] = []float64{-0.7, -2.5}
		if samples == nil {
			samples = rolled
		}
		g := &gathering{p, map[Key][]float64{}}
		b, err := o.Evaluate(g, samples, []float64{1, -2})
		if err != nil {
			t.Fatal(err)
		}
		return b, g.sum
	}
	lesson := []Sample{saidSample(Key{Prompt: 9}, -0.7, -2.5)}
	own := TokenPolicy{Loss: loss.DefaultTokens()}
	teach := SFT{Aggregate: loss.Aggregate{Mode: "token-mean"}, Undecided: true}
	first, byOwn := blame(own, nil)
	second, byTeaching := blame(teach, lesson)
	o := Imitation{Own: own, Written: teach, Share: 0.3, Lessons: func() ([]Sample, error) { return lesson, nil }}
	both, sum := blame(o, nil)
	if math.Abs(both.Loss-(0.7*first.Loss+0.3*second.Loss)) > 1e-15 || both.Metrics["imitated"][0] != 0.3 || len(both.Metrics["ratio"]) != len(first.Metrics["ratio"]) {
		t.Errorf("the loss is %v of %v and %v; %v", both.Loss, first.Loss, second.Loss, both.Metrics)
	}
	for _, part := range []struct {
		by    float64
		grads map[Key][]float64
	}{{0.7, byOwn}, {0.3, byTeaching}} {
		for key, row := range part.grads {
			for k, g := range row {
				if got := sum[key][k]; math.Abs(got-part.by*g) > 1e-16 || got == 0 {
					t.Errorf("token %d of %v has the gradient %v, want %v", k, key, got, part.by*g)
				}
			}
		}
	}
	alone, sum := blame(o, []Sample{})
	if math.Abs(alone.Loss-0.3*second.Loss) > 1e-15 || alone.Idle || len(sum) != len(byTeaching) {
		t.Errorf("without samples the loss is %v of %v, idle %v, with gradients of %d", alone.Loss, second.Loss, alone.Idle, len(sum))
	}
	for key, row := range byTeaching {
		for k, g := range row {
			if math.Abs(sum[key][k]-0.3*g) > 1e-16 {
				t.Errorf("without samples token %d of %v has the gradient %v, want %v", k, key, sum[key][k], 0.3*g)
			}
		}
	}
	o.Share, o.Lessons = 0, func() ([]Sample, error) { return nil, errors.New("read") }
	if b, sum := blame(o, nil); b.Loss != first.Loss || sum[Key{}][0] != byOwn[Key{}][0] {
		t.Errorf("with a share of 0 the loss is %v, not %v", b.Loss, first.Loss)
	}
	if b, sum := blame(o, []Sample{}); !b.Idle || len(sum) > 0 {
		t.Errorf("a share of 0 without samples is no idle update: %+v", b)
	}
}
