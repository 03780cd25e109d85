package run

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// rolling is a run whose learning rate passes a bound in its third iteration.
func rolling(t *testing.T, scale string) *experiment.Experiment {
	t.Helper()
	return parse(t, "checkpoint.every=2", "optim.updates=1", "optim.warmup=4", "advantage.estimator=history",
		"monitor=[{watch='lr', rises_above=0.004, then='rollback', rollback={lr_scale="+scale+", most=2}}]")
}

// TestRollback: the run goes back to its last regular checkpoint and on with other draws and a
// smaller rate; what it left stays in the ledger as such. A run that was stopped or killed at any
// iteration leaves the same bytes.
func TestRollback(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	dir := t.TempDir()
	whole, snapshots := filepath.Join(dir, "whole"), []string{}
	copied := func(l *ledger.Line) {
		to := filepath.Join(dir, fmt.Sprint("killed", len(snapshots)))
		if err := os.CopyFS(to, os.DirFS(whole)); err != nil {
			t.Error(err)
		}
		snapshots = append(snapshots, to)
	}
	if r, err := trainWith(t, rolling(t, "0.5"), whole, false, 2, func(l *ledger.Line) bool { copied(l); return false }); err != nil || r.Status != ledger.Finished {
		t.Fatalf("%v, %v", r, err)
	}
	kept, abandoned, err := ledger.Read(filepath.Join(whole, "ledger.jsonl"))
	if err != nil || len(kept) != 4 || len(abandoned) != 2 || abandoned[0].Iteration != 3 || abandoned[1].Rollback == nil {
		t.Fatalf("%d lines are kept, abandoned are %+v, %v", len(kept), abandoned, err)
	}
	if r := *abandoned[1].Rollback; r.From != 3 || r.To != 2 || r.Attempt != 1 || r.LRScale != 0.5 || !strings.Contains(r.Why, "lr rose to 0.005") {
		t.Errorf("%+v", r)
	}
	if a, b := abandoned[0], kept[2]; b.Attempt != 1 || b.Updates[0].Rate != a.Updates[0].Rate/2 || b.Total == a.Total {
		t.Errorf("iteration 3 was %+v, and is %+v", a, b)
	}
	want := contents(t, whole)
	for stop := 2; stop < 4; stop++ { // where it goes back to, and whence
		parts := filepath.Join(dir, fmt.Sprint("parts", stop))
		if r, err := train(t, rolling(t, "0.5"), parts, false, 1, stop); err != nil || r.Status != ledger.Interrupted {
			t.Fatalf("%v, %v", r, err)
		}
		snapshots = append(snapshots, parts)
	}
	for _, parts := range snapshots {
		if r, err := train(t, rolling(t, "0.5"), parts, true, 2, -1); err != nil || r.Status != ledger.Finished {
			t.Fatalf("%s: %v, %v", parts, r, err)
		}
		same(t, filepath.Base(parts), want, contents(t, parts))
	}
}

// TestRollbackEnds: without a smaller rate the rule is broken again, by other samples each time,
// and the run stops.
func TestRollbackEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	r, err := train(t, rolling(t, "1"), dir, false, 2, -1)
	if err != nil || r.Status != ledger.Stopped || r.Iterations != 3 || !strings.Contains(r.Why, "after 2 rollbacks") {
		t.Fatalf("%+v, %v", r, err)
	}
	seen := map[float64]bool{}
	if err := folder.ReadLines(filepath.Join(dir, "ledger.jsonl"), func(text []byte) error {
		var l ledger.Line
		err := json.Unmarshal(text, &l)
		if l.Iteration == 3 {
			seen[l.Total.Mean] = true
		}
		return err
	}); err != nil || len(seen) != 3 {
		t.Errorf("three attempts at iteration 3 have the totals %v, %v", seen, err)
	}
}

// TestRollbackWithoutHeldOut: nothing is held out, and the run is stopped between two regular
// checkpoints. It goes back to the same iteration as one that was never stopped.
func TestRollbackWithoutHeldOut(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	e := func() *experiment.Experiment {
		return parse(t, "checkpoint.every=5", "evaluate.every=0", "evaluate.prompts=''", "optim.updates=1", "optim.warmup=4",
			"monitor=[{watch='lr', rises_above=0.004, then='rollback'}]")
	}
	whole, parts := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "parts")
	if r, err := train(t, e(), whole, false, 2, -1); err != nil || r.Status != ledger.Finished {
		t.Fatalf("%v, %v", r, err)
	}
	for _, stop := range []int{2, -1} {
		if r, err := train(t, e(), parts, stop < 0, 2, stop); err != nil || (r.Status == ledger.Finished) != (stop < 0) {
			t.Fatalf("%v, %v", r, err)
		}
	}
	_, abandoned, err := ledger.Read(filepath.Join(parts, "ledger.jsonl"))
	if err != nil || len(abandoned) == 0 || abandoned[len(abandoned)-1].Rollback.To != 0 {
		t.Errorf("abandoned are %+v, %v", abandoned, err)
	}
	same(t, "stopped between two checkpoints", contents(t, whole), contents(t, parts))
}

// TestRollbackBest: the run goes back to the evaluation that was best by what the monitor says, which
// is not deleted though but one checkpoint is kept; one that was killed anywhere leaves the same bytes.
func TestRollbackBest(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	const by = "jpeg"
	e := func() *experiment.Experiment {
		return parse(t, "checkpoint={every=1, keep=1}", "evaluate.every=1", "optim.updates=1", "optim.warmup=4",
			"monitor=[{watch='lr', rises_above=0.004, then='rollback', rollback={to='best', by='heldout."+by+"'}}]")
	}
	dir := t.TempDir()
	whole, snapshots := filepath.Join(dir, "whole"), []string{}
	r, err := trainWith(t, e(), whole, false, 2, func(l *ledger.Line) bool {
		to := filepath.Join(dir, fmt.Sprint("killed", len(snapshots)))
		if err := os.CopyFS(to, os.DirFS(whole)); err != nil {
			t.Error(err)
		}
		snapshots = append(snapshots, to)
		return false
	})
	if err != nil || r.Status != ledger.Finished {
		t.Fatalf("%v, %v", r, err)
	}
	kept, abandoned, err := ledger.Read(filepath.Join(whole, "ledger.jsonl"))
	if err != nil || len(kept) != 4 || len(abandoned) == 0 {
		t.Fatalf("%d lines are kept, abandoned are %+v, %v", len(kept), abandoned, err)
	}
	back := *abandoned[len(abandoned)-1].Rollback
	at, best := 0, r.HeldOut[by].Before.Mean
	for _, l := range append(kept[:back.To:back.To], abandoned[:len(abandoned)-1]...) {
		if v := l.HeldOut[by].Mean; l.Iteration < back.From && v > best {
			at, best = l.Iteration, v
		}
	}
	if back.To != at || back.From != 3 {
		t.Errorf("by %s it went back from %d to %d; the best was %d", by, back.From, back.To, at)
	}
	if back.To == back.From-1 {
		t.Error("the best is the last one, and this test tells nothing: watch another reward")
	}
	want := contents(t, whole)
	for _, parts := range snapshots[len(snapshots)-3:] {
		if r, err := train(t, e(), parts, true, 1, -1); err != nil || r.Status != ledger.Finished {
			t.Fatalf("%s: %v, %v", parts, r, err)
		}
		same(t, filepath.Base(parts), want, contents(t, parts))
	}
}
