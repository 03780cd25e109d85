package run

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// overflown is a run whose first update moves its weights so far that nothing finite comes of them.
var overflown = []string{"run.iterations=9", "optim.lr=1e30", "optim.updates=2", "evaluate.every=3", "checkpoint.every=2", "checkpoint.keep=9"}

// TestNotFinite: numbers that are infinite or none end no iteration. Its updates are skipped, its line says so, and
// the run gives up after some in a row, with its finished iterations; stopped and resumed it leaves the same bytes.
func TestNotFinite(t *testing.T) {
	whole, parts := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "parts")
	_, err := train(t, parse(t, overflown...), whole, false, 2, -1)
	if err == nil || !strings.Contains(err.Error(), "no update in 5 iterations in a row") || !strings.Contains(err.Error(), "hint: ") ||
		!strings.Contains(err.Error(), "iteration 6 is saved") {
		t.Fatalf("%v", err)
	}
	lines, _, err := ledger.Read(filepath.Join(whole, "ledger.jsonl"))
	if err != nil || len(lines) != 6 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	for i, l := range lines {
		if v, ok := l.Value("skipped"); !ok || i > 0 && l.Passed == "" || i > 0 && (v != 2 || len(l.Updates) > 0) {
			t.Errorf("iteration %d skips %v updates, makes %d, and passed because %q", l.Iteration, v, len(l.Updates), l.Passed)
		}
	}
	if r, err := train(t, parse(t, overflown...), parts, false, 1, 3); err != nil || r.Status != ledger.Interrupted {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, err := train(t, parse(t, overflown...), parts, true, 2, -1); err == nil || !strings.Contains(err.Error(), "iteration 6 is saved") {
		t.Fatalf("%v", err)
	}
	a, b := contents(t, whole), contents(t, parts)
	delete(a, resultFile) // each knows of the evaluations since it began
	delete(b, resultFile)
	same(t, "stopped between two skipped iterations", a, b)
}

// TestNotFiniteRollback: a monitor of skipped updates takes the run back, and it comes to its end.
func TestNotFiniteRollback(t *testing.T) {
	sets := append(overflown[:len(overflown):len(overflown)], "run.iterations=2", "checkpoint.every=9",
		"monitor=[{watch='skipped', rises_above=0, then='rollback', rollback={lr_scale=1e-33}}]")
	dir := filepath.Join(t.TempDir(), "run")
	r, err := train(t, parse(t, sets...), dir, false, 2, -1)
	if err != nil || r.Status != ledger.Finished || r.Iterations != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	kept, abandoned, err := ledger.Read(filepath.Join(dir, "ledger.jsonl"))
	if err != nil || len(kept) != 2 || len(kept[1].Updates) != 2 || abandoned[len(abandoned)-1].Rollback == nil {
		t.Errorf("%d lines are kept, abandoned are %+v, %v", len(kept), abandoned, err)
	}
}

// TestNotFiniteTokens: logits that are NaN are not sampled from, and end no run.
func TestNotFiniteTokens(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	var said []string
	e := parseText(t, talking, speaker(t), "run.iterations=3", "optim.lr=1e30", "evaluate.every=0", "evaluate.prompts=''")
	r, err := trainAs(t, e, Options{Dir: dir, Logf: saying(&said)})
	if err != nil || r.Status != ledger.Finished {
		t.Fatalf("%+v, %v", r, err)
	}
	lines, _, err := ledger.Read(filepath.Join(dir, "ledger.jsonl"))
	if err != nil || len(lines) != 3 || lines[2].Skipped == 0 || !strings.Contains(strings.Join(said, "\n"), "skipped, the weights stay as they are") {
		t.Errorf("%+v, %v, %v", lines, err, said)
	}
}
