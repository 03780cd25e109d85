package run

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// TestTutor: a policy draws near to a teacher of conversations, which is another adapter of its model; rewards are
// measured and not learned from. A teacher that is the model itself teaches nothing.
func TestTutor(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a small model and trains it: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	dir := t.TempDir()
	text := strings.Replace(talking, `kl = { weight = 0.01, estimator = "k3" }`, "", 1)
	lora := `model.lora={rank=4, alpha=32, targets=["q_proj", "v_proj", "down_proj"]}`
	sets := []string{fewQuestions(t), speaker(t), "model.train=lora", lora, "optim.updates=1", "optim.lr=1e-2", "evaluate.every=9"}
	taught := strings.ReplaceAll(coldStart, "LESSONS", taughtLessons(t))
	teacher := filepath.Join(dir, "teacher")
	if r, err := train(t, parseText(t, text+taught, append(sets, "run.iterations=5")...), teacher, false, 2, 4); err != nil || r.Status != ledger.Interrupted {
		t.Fatalf("%v, %v", r, err)
	}
	pupil := func(name, of string, iterations string) []ledger.Line {
		t.Helper()
		e := parseText(t, text, append(sets, "loss.objective=distill", "model.teacher="+of, "run.iterations="+iterations)...)
		if r, err := train(t, e, filepath.Join(dir, name), false, 2, -1); err != nil || r.Status != ledger.Finished {
			t.Fatalf("%s: %v, %v", name, r, err)
		}
		return ledgerOf(t, filepath.Join(dir, name))
	}
	lines := pupil("pupil", teacher, "4")
	first, last := lines[0].Updates[0], lines[3].Updates[0]
	if first.RatioMost != 1 || !(first.Metrics["kl"] > 0.005) || !(last.Metrics["kl"] < 0.6*first.Metrics["kl"]) {
		t.Errorf("the divergence went from %v to %v, ratio %v", first.Metrics["kl"], last.Metrics["kl"], first.RatioMost)
	}
	own, _ := strings.CutPrefix(speaker(t), "model.path=")
	if u := pupil("own", own, "1")[0].Updates[0]; u.Metrics["kl"] != 0 || u.Gradient != 0 {
		t.Errorf("a teacher that is the model: divergence %v, gradient %v", u.Metrics["kl"], u.Gradient)
	}
}
