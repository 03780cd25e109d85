package run

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// TestTeacher: a policy comes near to an adapter that was trained before, by its own samples alone; a teacher who is
// the model itself has nothing to teach before anything is learned.
func TestTeacher(t *testing.T) {
	taught := t.TempDir()
	if _, err := train(t, parse(t, "run.iterations=2", "optim.lr=0.5", "evaluate.every=0"), taught, false, 2, -1); err != nil {
		t.Fatal(err)
	}
	two := filepath.Join(t.TempDir(), "two.txt") // the same ones in every iteration
	if err := os.WriteFile(two, []byte("a circle\na square\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	distances := func(teacher string) (all []float64) {
		dir := t.TempDir()
		e := parse(t, "model.teacher="+teacher, "loss.objective=distill", "run.iterations=8", "rollout.prompts="+two,
			"evaluate.every=0", "optim.updates=1", "optim.lr=0.1", "sampler.window.kind=frozen")
		if _, err := train(t, e, dir, false, 2, -1); err != nil {
			t.Fatal(err)
		}
		for _, l := range ledgerOf(t, dir) {
			all = append(all, l.Updates[0].Metrics["kl"])
		}
		return all
	}
	if d := distances(taught); len(d) != 8 || !(d[0] > 0) || d[7] > 0.6*d[0] {
		t.Errorf("the distances from the teacher are %v", d)
	}
	// Who goes on has the same teacher.
	dir := t.TempDir()
	e := parse(t, "model.teacher="+taught, "loss.objective=distill", "run.iterations=2", "evaluate.every=0")
	if _, err := train(t, e, dir, false, 2, 1); err != nil {
		t.Fatal(err)
	}
	numbers := filepath.Join(taught, "checkpoints", "000002", "adapter_model.safetensors")
	text, err := os.ReadFile(numbers)
	if err != nil {
		t.Fatal(err)
	}
	flip(t, numbers, len(text)-1)
	if _, err := train(t, e, dir, true, 2, -1); !errors.Is(err, ErrOther) {
		t.Errorf("with another teacher: %v", err)
	}
	flip(t, numbers, len(text)-1)
	own := strings.TrimPrefix(tiny(t), "model.path=")
	if d := distances(own); d[0] != 0 {
		t.Errorf("the distances from the model itself are %v", d)
	}
}

// TestTeacherMistakes: who is asked is named, and who is named is asked.
func TestTeacherMistakes(t *testing.T) {
	for want, sets := range map[string][]string{
		"no teacher is named":      {"loss.objective=distill"},
		"no loss asks the teacher": {"model.teacher=runs/none"},
		"the teacher is not asked": {"model.teacher=runs/none", "loss.objective=distill", "loss.kl.weight=0"},
	} {
		_, err := experiment.Parse("small.toml", []byte(strings.ReplaceAll(small, "PROMPTS", "testdata/prompts.txt")), sets)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", sets, err, want)
		}
	}
}
