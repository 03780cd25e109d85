package run

import (
	"encoding/json"
	"math"
	"path/filepath"
	"testing"

	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
)

// testStems: a run whose episodes grow on trees compares them among their prompt's and among their tree's.
func testStems(t *testing.T, model string) {
	run := filepath.Join(t.TempDir(), "run")
	e := parseText(t, talking, model, "run.iterations=1", "rollout.group=6", "episode.tree={}", "advantage.estimator=dr", "evaluate.every=0", "evaluate.prompts=''",
		"optim.updates=1", "loss.kl.weight=0", "advantage.all_dead=train")
	if _, err := train(t, e, run, false, 2, -1); err != nil {
		t.Fatal(err)
	}
	var b advantage.Batch
	var trees []int
	var totals, said []float64
	if err := folder.ReadLines(filepath.Join(run, "samples.jsonl"), func(text []byte) error {
		var l ledger.SampleLine
		err := json.Unmarshal(text, &l)
		b.Groups, trees = append(b.Groups, l.Prompt), append(trees, 2*l.Prompt+l.Sample/3)
		totals, said = append(totals, *l.Total), append(said, *l.Advantage)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	b.Rewards = [][]float64{totals}
	want, _, err := e.Estimator().InTrees(b, trees)
	if err != nil || len(said) != 12 {
		t.Fatalf("%d samples, %v", len(said), err)
	}
	differ := false
	for i := range want {
		differ = differ || totals[i] != totals[0]
		if math.Abs(said[i]-want[i]) > 1e-12 {
			t.Errorf("sample %d has advantage %v, want %v", i, said[i], want[i])
		}
	}
	if !differ {
		t.Error("all totals are equal: nothing was tried")
	}
}
