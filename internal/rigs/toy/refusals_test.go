package toy

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// TestErrorsCountFromOne: people count iterations and updates from 1.
func TestErrorsCountFromOne(t *testing.T) {
	_, tr := newRun(t, 6)
	score := tr.Score
	tr.Score = func([]trainer.Sample) ([]float64, error) { return nil, errors.New("no answer") }
	if _, err := tr.Step(); err == nil || !strings.Contains(err.Error(), "scoring iteration 1: no answer") {
		t.Errorf("%v", err)
	}
	tr.Score, tr.Objective = score, failing{}
	if _, err := tr.Step(); err == nil || !strings.Contains(err.Error(), "update 1 of iteration 1: no gradient") {
		t.Errorf("%v", err)
	}
}

// failing is an objective that gives no gradient.
type failing struct{}

func (failing) Evaluate(trainer.Policy, []trainer.Sample, []float64) (trainer.LossResult, error) {
	return trainer.LossResult{}, errors.New("no gradient")
}

// TestMissingScore: a sample without a score changes nothing, as if it had not
// been judged; the others' ratios are all there.
func TestMissingScore(t *testing.T) {
	p, tr := newRun(t, 8)
	score, compare := tr.Score, tr.Compare
	tr.Score = func(s []trainer.Sample) ([]float64, error) {
		scores, err := score(s)
		scores[1] = math.NaN()
		return scores, err
	}
	tr.Compare = func(s []trainer.Sample, scores []float64) ([]float64, error) {
		all, err := compare(append(slices.Clone(s[:1]), s[2:]...), append(slices.Clone(scores[:1]), scores[2:]...))
		return slices.Insert(all, 1, math.NaN()), err
	}
	r, err := tr.Step()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(r.Updates[0].Metrics["ratio"]); n != 2*(groups*members-1) || len(r.Samples) != groups*members {
		t.Errorf("%d ratios, %d samples", n, len(r.Samples))
	}
	if norm, _ := p.Norm(); norm != 0 {
		t.Errorf("a gradient of norm %v is left after the update", norm)
	}
}

// TestRefusals: samples without a signal do not move the weights.
func TestRefusals(t *testing.T) {
	for says, spoil := range map[string]func(*Policy, *trainer.Trainer){
		"has the score": func(_ *Policy, tr *trainer.Trainer) {
			tr.Compare = func(s []trainer.Sample, _ []float64) ([]float64, error) {
				return append(make([]float64, len(s)-1), math.NaN()), nil
			}
		},
		"none of 6 samples has a score": func(_ *Policy, tr *trainer.Trainer) {
			tr.Score = func([]trainer.Sample) ([]float64, error) {
				nan := math.NaN()
				return []float64{nan, nan, nan, nan, nan, nan}, nil
			}
		},
		"no decision may be judged": func(p *Policy, _ *trainer.Trainer) { p.Trained = nil },
		"draws nothing here":        func(p *Policy, _ *trainer.Trainer) { p.Trained = []int{0, 1} },
		"looks back": func(_ *Policy, tr *trainer.Trainer) {
			rows := []sde.Row{{Next: sde.Mix{Out: []float64{1, 0.5}}, Density: sde.Gaussian}, {}, {}}
			tr.Objective = trainer.PolicyGradient{Rows: rows, Loss: clipped(0).Of, Reference: true}
		},
		"has no rows of 2": func(p *Policy, _ *trainer.Trainer) { p.Start = func(trainer.Key) []float64 { return []float64{1} } },
	} {
		p, tr := newRun(t, 7)
		before := p.Weights(trainer.Current)
		spoil(p, tr)
		if _, err := tr.Step(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
		if !slices.Equal(before, p.Weights(trainer.Current)) {
			t.Errorf("%s: the weights moved", says)
		}
	}
}

// TestNotFinite: an update whose gradient is not finite is skipped: it moves no weight, leaves nothing behind for the
// next one, and counts for no schedule.
func TestNotFinite(t *testing.T) {
	p, tr := newRun(t, 7)
	before, finite := p.Weights(trainer.Current), tr.Compare
	tr.Objective = trainer.PolicyGradient{Rows: p.Rows, Loss: loss.Clip{Clipping: loss.Clipped(1, 0, 0)}.Of}
	tr.Compare = func(s []trainer.Sample, _ []float64) ([]float64, error) {
		all := make([]float64, len(s))
		all[0] = math.Inf(1)
		return all, nil
	}
	r, err := tr.Step()
	if err != nil || r.Skipped != tr.Optim.Updates || len(r.Updates) > 0 || r.Passed == "" || !errors.As(r.Odd, new(kernels.NotFinite)) {
		t.Fatalf("%+v, %v", r, err)
	}
	if !slices.Equal(before, p.Weights(trainer.Current)) || tr.Updates != 0 || tr.Iteration != 1 {
		t.Errorf("after it %d updates and %d iterations, and weights %v, which were %v", tr.Updates, tr.Iteration, p.Weights(trainer.Current), before)
	}
	tr.Compare = finite
	if r, err := tr.Step(); err != nil || r.Skipped > 0 || len(r.Updates) == 0 || !(r.Updates[0].Norm > 0) {
		t.Errorf("the next one: %+v, %v", r, err)
	}
}

// TestShares: every sample is in one update, and the updates of a split iteration are as large as
// each other.
func TestShares(t *testing.T) {
	p, tr := newRun(t, 4)
	var seen []int
	whole := tr.Objective
	tr.Objective = objective(func(p trainer.Policy, s []trainer.Sample, a []float64) (trainer.LossResult, error) {
		seen = append(seen, len(s))
		return whole.Evaluate(p, s, a)
	})
	tr.Optim.Updates, tr.Optim.Split = 3, true
	tr.Order = func(_, n int) []int {
		order := make([]int, n)
		for i := range order {
			order[i] = n - 1 - i
		}
		return order
	}
	r, err := tr.Step()
	if err != nil {
		t.Fatal(err)
	}
	n := len(r.Samples)
	if len(r.Updates) != 3 || len(seen) != 3 || seen[0]+seen[1]+seen[2] != n || seen[0] < n/3 || seen[2] > n/3+1 {
		t.Errorf("%d samples were shared out as %v", n, seen)
	}
	_ = p
}

type objective func(p trainer.Policy, s []trainer.Sample, a []float64) (trainer.LossResult, error)

func (o objective) Evaluate(p trainer.Policy, s []trainer.Sample, a []float64) (trainer.LossResult, error) {
	return o(p, s, a)
}
