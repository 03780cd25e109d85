package run

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
)

// younger are keys that resolved files of earlier versions lack, as lines.
var younger = regexp.MustCompile(`(?m)^(lag|decoder) = .*\n`)

// TestEarlier: a run that an earlier version began, whose resolved file lacks keys of today, goes on, and its bytes are
// those of a run that has them all along.
func TestEarlier(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	whole, parts := filepath.Join(dir, "whole"), filepath.Join(dir, "parts")
	sets := []string{"run.iterations=2", "rollout.group=2", "optim.updates=1", "sampler.window.size=1", "evaluate.every=9"}
	if _, err := train(t, parse(t, sets...), whole, false, 2, -1); err != nil {
		t.Fatal(err)
	}
	if r, err := train(t, parse(t, sets...), parts, false, 2, 1); err != nil || r.Status != ledger.Interrupted {
		t.Fatalf("%v, %v", r, err)
	}
	path := filepath.Join(parts, folder.Config)
	now, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(younger.FindAll(now, -1)); n != 2 {
		t.Fatalf("%d keys are left out of the file, not 2", n)
	}
	if err := os.WriteFile(path, younger.ReplaceAll(now, nil), 0o644); err != nil {
		t.Fatal(err)
	}
	if r, err := train(t, parse(t, sets...), parts, true, 2, -1); err != nil || r.Status != ledger.Finished {
		t.Fatalf("%v, %v", r, err)
	}
	same(t, "begun by an earlier version", contents(t, whole), contents(t, parts))
}
