package run

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// TestRemeasured: a run that goes on with other held-out samples tells no gain between two measures. The start is
// measured anew, as a run with the new ones from its beginning measures it, and a stop after that changes no byte.
// Where the weights of the start are gone, there is no gain.
func TestRemeasured(t *testing.T) {
	dir := t.TempDir()
	sets := []string{"evaluate.every=1", "optim.updates=1"}
	of := func(n string, more ...string) []string {
		return append(append(sets[:2:2], "run.iterations="+n), more...)
	}
	fresh := filepath.Join(dir, "fresh")
	want, err := train(t, parse(t, of("1", "evaluate.seed=99")...), fresh, false, 2, -1)
	if err != nil {
		t.Fatal(err)
	}
	whole, stopped := filepath.Join(dir, "whole"), filepath.Join(dir, "stopped")
	var said []string
	for _, to := range []string{whole, stopped} {
		if _, err := train(t, parse(t, of("2")...), to, false, 2, -1); err != nil {
			t.Fatal(err)
		}
	}
	r, err := trainAs(t, parse(t, of("4", "evaluate.seed=99")...), Options{Dir: whole, Resume: true, Logf: saying(&said)})
	if err != nil {
		t.Fatal(err)
	}
	if all := strings.Join(said, "\n"); !strings.Contains(all, "evaluate.seed was ") || !strings.Contains(all, "and is 99") || !strings.Contains(all, "measured anew") {
		t.Errorf("it says %q", all)
	}
	if g := r.HeldOut["sharpness"]; !g.Known() || *g.Before != *want.HeldOut["sharpness"].Before || g.Iteration != 4 {
		t.Errorf("the gain is %+v, and the start was %+v", g, want.HeldOut["sharpness"].Before)
	}
	samples, err := ledger.ReadHeldOutOf(filepath.Join(whole, ledger.HeldOutFile), 0)
	first, err2 := ledger.ReadHeldOut(filepath.Join(fresh, ledger.HeldOutFile))
	if err != nil || err2 != nil || len(samples[0]) != len(first[0]) || *samples[0][0].Total != *first[0][0].Total {
		t.Errorf("the start's samples are %+v, want %+v (%v, %v)", samples[0], first[0], err, err2)
	}
	kept, _, err := ledger.Read(filepath.Join(whole, "ledger.jsonl"))
	if err != nil || len(kept) != 4 || kept[1].HeldOut != nil || kept[2].HeldOut == nil {
		t.Errorf("the curve is of %+v, %v", kept, err)
	}
	for _, stop := range []int{3, -1} {
		if _, err := train(t, parse(t, of("4", "evaluate.seed=99")...), stopped, true, 2, stop); err != nil {
			t.Fatal(err)
		}
	}
	same(t, "stopped after it was measured anew", contents(t, whole), contents(t, stopped))
	full := filepath.Join(dir, "full")
	parts := []string{`model.train=["transformer_blocks.0.attn.to_q.*"]`, "model.precision=f32"}
	if _, err := train(t, parse(t, append(of("1"), parts...)...), full, false, 2, -1); err != nil {
		t.Fatal(err)
	}
	r, err = train(t, parse(t, append(of("2", "evaluate.seed=99"), parts...)...), full, true, 2, -1)
	if g := r.HeldOut["sharpness"]; err != nil || g.Before != nil || g.After == nil {
		t.Errorf("the start's weights are gone, and the gain is %+v, %v", g, err)
	}
}
