package run

import (
	"path/filepath"
	"testing"
)

// testGuided: a run whose groups are given the beginning of solutions gives as much as the rule says of its own scores,
// and one that was stopped within a round of iterations goes on with the same bytes.
func testGuided(t *testing.T, model string) {
	sets := []string{model, "run.iterations=4", "rollout.prompts=embed:zoom-solved", "evaluate.every=0", "evaluate.prompts=''", "optim.updates=1", "loss.kl.weight=0", "advantage.all_dead=train",
		`episode.guided={share=0.5, tokens=6, most=12, every=2, reward="calls"}`}
	whole, parts := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "parts")
	for _, r := range []struct {
		dir    string
		resume bool
		stop   int
	}{{whole, false, -1}, {parts, false, 1}, {parts, true, 3}, {parts, true, -1}} {
		e := parseText(t, talking, sets...)
		if _, err := train(t, e, r.dir, r.resume, 2, r.stop); err != nil {
			t.Fatal(err)
		}
	}
	same(t, "stopped behind iterations 1 and 3", contents(t, whole), contents(t, parts))
	g := *parseText(t, talking, sets...).Episode.Guided
	k := g.New()
	for _, l := range readLedger(t, whole) {
		if want := float64(k.Tokens) * g.Share; l.Episodes["given"] != want { // solutions are longer
			t.Errorf("iteration %d: %v tokens were given, want %v", l.Iteration, l.Episodes["given"], want)
		}
		g.Learn(k, l.Rewards["calls"].Mean)
	}
	if k.Tokens == g.Tokens {
		t.Errorf("the number stayed at %d: nothing was tried", k.Tokens)
	}
}

// TestGuidedAhead: an iteration to come, which run.lag has workers roll, gives as much as it will.
func TestGuidedAhead(t *testing.T) {
	e := parseText(t, talking, "model.path=embed:tiny-vlm", "rollout.prompts=embed:zoom-solved", "evaluate.every=0", "evaluate.prompts=''", "run.lag=1", "loss.kl.weight=0",
		`episode.guided={share=0.5, tokens=6, most=12, every=0}`)
	list, err := e.Training(nil)
	if err != nil {
		t.Fatal(err)
	}
	run := &loop{Experiment: e, train: list, selection: newSelection(e, list)}
	for i := range 2 {
		if p, err := run.planned(i); err != nil || p.Settings.Given != 6 || len(p.Keys) == 0 {
			t.Errorf("iteration %d: %d tokens, %d samples, %v", i, p.Settings.Given, len(p.Keys), err)
		}
	}
}
