package run

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// TestTeacher: a policy comes near to an adapter that was trained before, by its own samples alone; a teacher who is
// the model itself has nothing to teach before anything is learned.
func TestTeacher(t *testing.T) {
	taught := t.TempDir()
	if _, err := train(t, parse(t, "run.iterations=2", "optim.lr=0.05", "evaluate.every=0"), taught, false, 2, -1); err != nil {
		t.Fatal(err)
	}
	two := filepath.Join(t.TempDir(), "two.txt") // the same ones in every iteration
	if err := os.WriteFile(two, []byte("a circle\na square\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	distances := func(teacher string) (all []float64) {
		dir := t.TempDir()
		e := parse(t, "model.teacher="+teacher, "loss.objective=distill", "run.iterations=8", "rollout.prompts="+two,
			"evaluate.every=0", "optim.updates=8", "optim.lr=0.005", "model.precision=f32", "sampler.window.kind=frozen")
		if _, err := train(t, e, dir, false, 2, -1); err != nil {
			t.Fatal(err)
		}
		for _, l := range ledgerOf(t, dir) {
			all = append(all, l.Updates[0].Metrics["kl"])
		}
		return all
	}
	if d := distances(taught); len(d) != 8 || !(d[0] > 0) || d[7] > 0.2*d[0] {
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

// TestGuidedTeacher: a policy that has learned nothing is as far from the model with guidance as guidance leads, (s -
// 1) times the difference of both outputs: the squared distance at 5 is four times that at 3. A run that stopped goes
// on with the same numbers.
func TestGuidedTeacher(t *testing.T) {
	run := func(guidance string, stop int) []ledger.Line {
		e := func() *experiment.Experiment {
			return parse(t, "loss={objective='distill', kl={reference='base', estimator='velocity', guidance="+guidance+"}}", "run.iterations=3",
				"evaluate.every=0", "optim.updates=1")
		}
		dir := t.TempDir()
		if stop > 0 {
			if _, err := train(t, e(), dir, false, 2, stop); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := train(t, e(), dir, stop > 0, 2, -1); err != nil {
			t.Fatal(err)
		}
		return ledgerOf(t, dir)
	}
	three, five, stopped := run("3", 0), run("5", 0), run("3", 2)
	d3, d5 := three[0].Updates[0].Metrics["kl"], five[0].Updates[0].Metrics["kl"]
	if !(d3 > 0) || math.Abs(d5/d3-4) > 1e-9 {
		t.Errorf("the squared distances from guidance 3 and 5 are %v and %v", d3, d5)
	}
	if !reflect.DeepEqual(three, stopped) {
		t.Errorf("the run that stopped has other numbers:\n%+v\n%+v", three, stopped)
	}
}

// TestTeacherMistakes: a teacher that is used is named, and one that is named is used.
func TestTeacherMistakes(t *testing.T) {
	for want, sets := range map[string][]string{
		"no teacher is named":      {"loss.objective=distill"},
		"no loss asks the teacher": {"model.teacher=runs/none"},
		"nothing to learn":         {"loss={objective='distill', kl={reference='base'}}"},
		"the reference is not ask": {"loss.kl.guidance=3"},
		"no model that could be":   {"loss.kl={weight=1, reference='old', guidance=3}"},
		"the teacher is not asked": {"model.teacher=runs/none", "loss.objective=distill", "loss.kl.weight=0"},
	} {
		_, err := experiment.Parse("small.toml", []byte(strings.ReplaceAll(small, "PROMPTS", "testdata/prompts.txt")), sets)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", sets, err, want)
		}
	}
}

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
