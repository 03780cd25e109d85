package run

import (
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/trainer"
)

// TestSkip: a prompt that is always solved is rolled less and less often, every other one as often as before, and a
// run that goes on from a checkpoint rolls the same prompts as the whole run.
func TestSkip(t *testing.T) {
	begun := func() *selection {
		s := newSelection(parse(t, "rollout.skip={step=0}"), make([]prompts.Prompt, 5))
		return &s
	}
	of := func(s *selection, i int) iteration {
		settings, err := s.e.Iteration(0)
		if err != nil {
			t.Fatal(err)
		}
		return iteration{number: i, settings: settings, root: attempt{}.root(s.e.Run.Seed)}
	}
	iterate := func(r *selection, i int) (rolled []int) {
		report := &trainer.Report{}
		for _, k := range r.keys(of(r, i)) {
			score := float64(k.Sample % 2)
			if k.Prompt == 3 {
				score = 1
			}
			report.Samples, report.Scores = append(report.Samples, trainer.Sample{Key: k}), append(report.Scores, score)
			if k.Sample == 0 {
				rolled = append(rolled, k.Prompt)
			}
		}
		r.learn(of(r, i), report)
		return rolled
	}
	whole, visits := begun(), make([]int, 5)
	var later [][]int
	var kept *selectionState
	for i := range 200 {
		if i == 100 {
			kept, _, _ = whole.state(nil)
			kept.Skips = copied(kept.Skips)
		}
		rolled := iterate(whole, i)
		for _, p := range rolled {
			visits[p]++
		}
		if i >= 100 {
			later = append(later, rolled)
		}
	}
	if visits[3] > visits[0]/4 || visits[3] == 0 {
		t.Errorf("visits: %v, want few of prompt 3, and some", visits)
	}
	others := []int{visits[0], visits[1], visits[2], visits[4]}
	if slices.Max(others)-slices.Min(others) > 1 {
		t.Errorf("visits: %v, want all but prompt 3 alike", visits)
	}
	resumed := begun()
	if err := resumed.load(kept, nil, nil); err != nil {
		t.Fatal(err)
	}
	for i, want := range later {
		if got := iterate(resumed, 100+i); !slices.Equal(got, want) {
			t.Fatalf("iteration %d after going on rolls %v, want %v", 100+i, got, want)
		}
	}
	if p := whole.skips; p.Easy != 0.5 || p.Solved[3] == 0 {
		t.Errorf("learned %+v", p)
	}
}

func copied(s *prompts.Skips) *prompts.Skips {
	c := *s
	c.Solved, c.Failed = slices.Clone(s.Solved), slices.Clone(s.Failed)
	return &c
}
