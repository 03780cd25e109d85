package run

import (
	"testing"

	"github.com/darkroom-rl/darkroom/trainer/ledger"
)

// TestImitates: rollouts and written answers are learned from in one update (CHORD): the first ratio is 1, the share of
// written answers falls, and where no group tells its samples apart they are learned from still.
func TestImitates(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a small model and trains it: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	dir := t.TempDir()
	e := parseText(t, presetTalk, fewQuestions(t), speaker(t), "run.iterations=3", "rollout.prompts_per_iteration=1", "rollout.group=4", "optim.lr=1e-3", "checkpoint.every=3",
		"advantage.all_dead=train", "rollout.lessons="+taughtLessons(t), "loss.imitate={weight=0.8, least=0.2, warmup=1, decay=1, rows=3}")
	if r, err := train(t, e, dir, false, 2, -1); err != nil || r.Status != ledger.Finished {
		t.Fatalf("%v, %v", r, err)
	}
	lines := ledgerOf(t, dir)
	if u := lines[0].Updates[0]; u.RatioMost != 1 || u.Metrics["nll"] != 0 {
		t.Errorf("the first iteration imitates nothing: %+v", u)
	}
	for i, share := range []float64{0.8, 0.2} {
		if u := lines[i+1].Updates[0]; u.Metrics["imitated"] != share || u.Metrics["nll"] <= 0 || u.Gradient == 0 || u.RatioMost != 1 {
			t.Errorf("iteration %d: %+v", i+2, u)
		}
	}
}
