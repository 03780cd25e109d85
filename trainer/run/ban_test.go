package run

import (
	"slices"
	"testing"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/trainer"
)

// TestBan: a prompt whose samples all do well is rolled no more, after going on from a checkpoint either; one whose
// samples differ stays, and so do as many as an iteration has.
func TestBan(t *testing.T) {
	begun := func() *selection {
		s := newSelection(parse(t, "rollout.ban={}"), make([]prompts.Prompt, 5))
		return &s
	}
	of := func(s *selection, i int) iteration {
		settings, err := s.e.Iteration(0)
		if err != nil {
			t.Fatal(err)
		}
		return iteration{number: i, settings: settings, root: attempt{}.root(s.e.Run.Seed)}
	}
	iterate := func(r *selection, i int, well ...int) (rolled []int) {
		report := &trainer.Report{}
		for _, k := range r.keys(of(r, i)) {
			score := 0.92
			switch {
			case slices.Contains(well, k.Prompt):
			case k.Prompt == 0: // as good on average, and not alike
				score = 0.85 + 0.1*float64(k.Sample)
			default:
				score = 0.5
			}
			report.Samples, report.Scores = append(report.Samples, trainer.Sample{Key: k}), append(report.Scores, score)
			if k.Sample == 0 {
				rolled = append(rolled, k.Prompt)
			}
		}
		r.learn(of(r, i), report)
		return rolled
	}
	r, visits := begun(), make([]int, 5)
	for i := range 20 {
		for _, p := range iterate(r, i, 3) {
			visits[p]++
		}
	}
	if visits[3] != 1 || visits[0]+visits[1]+visits[2]+visits[4] != 39 || slices.Min([]int{visits[0], visits[1], visits[2], visits[4]}) < 9 {
		t.Errorf("visits: %v, want one of prompt 3 and as many of each other", visits)
	}
	kept, _, _ := r.state(nil)
	resumed := begun()
	if err := resumed.load(kept, nil, nil); err != nil {
		t.Fatal(err)
	}
	for i := 20; i < 30; i++ {
		if got, want := iterate(resumed, i, 3), iterate(r, i, 3); !slices.Equal(got, want) || slices.Contains(got, 3) {
			t.Errorf("iteration %d after going on rolls %v, want %v", i, got, want)
		}
	}
	for i := 30; i < 60; i++ {
		if rolled := iterate(r, i, 0, 1, 2, 3, 4); len(rolled) != 2 {
			t.Fatalf("iteration %d rolls %v", i, rolled)
		}
	}
	if n := len(r.banned); n != 3 {
		t.Errorf("%d of 5 prompts are banned, where an iteration has 2", n)
	}
}
