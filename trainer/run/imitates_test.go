package run

import (
	"testing"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// TestImitates: rollouts and written answers are learned from in one update (CHORD): the first ratio is 1, and the
// share of written answers follows the stage's iterations.
// Where no group tells its samples apart they are learned from alone.
func TestImitates(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a small model and trains it: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	dir := t.TempDir()
	e := parseText(t, presetTalk, fewQuestions(t), speaker(t), "run.iterations=5", "rollout.prompts_per_iteration=1", "rollout.group=4", "optim.lr=1e-3", "checkpoint.every=5", "episode.sampling.temperature=0.01",
		"rollout.lessons="+taughtLessons(t), "loss.imitate={weight=0.8, least=0.2, warmup=1, decay=1, rows=3}",
		`stage=[{iterations=2, advantage.all_dead="train"}, {iterations=3}]`)
	if r, err := train(t, e, dir, false, 2, -1); err != nil || r.Status != ledger.Finished {
		t.Fatalf("%v, %v", r, err)
	}
	lines := ledgerOf(t, dir)
	if u := lines[0].Updates[0]; u.RatioMost != 1 || u.Metrics["nll"] != 0 {
		t.Errorf("the first iteration imitates nothing: %+v", u)
	}
	if l := lines[2]; len(l.Updates) > 0 || l.Passed == "" {
		t.Errorf("the second stage begins with a share of 0, and dead groups: %+v", l)
	}
	for i, want := range map[int]struct{ share, ratio float64 }{1: {0.8, 1}, 3: {0.8, 0}, 4: {0.2, 0}} {
		l := lines[i]
		if len(l.Updates) != 1 || (l.Passed == "") != (want.ratio == 1) {
			t.Errorf("iteration %d has %d updates, passed %q", i+1, len(l.Updates), l.Passed)
			continue
		}
		if u := l.Updates[0]; u.Metrics["imitated"] != want.share || u.Metrics["nll"] <= 0 || u.Gradient == 0 || u.RatioMost != want.ratio {
			t.Errorf("iteration %d: %+v", i+1, u)
		}
	}
}
