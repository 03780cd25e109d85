package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
)

// Settings of trees, or of a compressed tail, for the small experiment.
var (
	branching = []string{"sampler.solver=dance", "sampler.window={kind='full', drop=1}", "sampler.tree={splits=[0, 2], scale=2.0}", "advantage.estimator=tree", "rollout.group=4"}
	trunks    = []string{"sampler.tree={kind='trunk', children=2}", "rollout.group=4", "loss.kl={weight=0.01, over='deviation'}"}
	flash     = []string{"sampler.steps=8", "sampler.window={kind='sliding', size=2, every=1, drop=3}", "sampler.flash={ratio=0.6}"}
)

// TestEpochEnds: an epoch of prompts ends inside an iteration, which plain epochs would give a prompt twice;
// its trees have advantages, and no sample is there twice.
func TestEpochEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	seed := 1
	for {
		plain := prompts.From(rng.New(uint64(seed)).With("prompts"), 2, 2, 3)
		if plain[0] == plain[1] {
			break
		}
		seed++
	}
	list := filepath.Join(t.TempDir(), "list.txt")
	if err := os.WriteFile(list, []byte("a red square on white\ntwo blue circles on black\na green triangle on white\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	sets := append(slices.Clone(branching), fmt.Sprint("run.seed=", seed), "run.iterations=3", "evaluate.every=0", "evaluate.prompts=''", "rollout.prompts="+list)
	if _, err := train(t, parse(t, sets...), dir, false, 2, -1); err != nil {
		t.Fatal(err)
	}
	for _, l := range ledgerOf(t, dir) {
		if len(l.Prompts) != 2 || l.Prompts[0] == l.Prompts[1] {
			t.Errorf("iteration %d has the prompts %v", l.Iteration, l.Prompts)
		}
	}
	_, err := train(t, parse(t, append(sets, "rollout.prompts_per_iteration=4")...), filepath.Join(dir, "few"), false, 2, -1)
	if !errors.Is(err, ErrFew) || !strings.Contains(err.Error(), "has 3, and rollout.prompts_per_iteration is 4") {
		t.Errorf("%v", err)
	}
}

// TestPassesArePlanned: the network runs as often as the plan says, in every part.
func TestPassesArePlanned(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	for name, sets := range map[string][]string{
		"flow_grpo":     {"sampler.window={kind='fraction', fraction=0.99}", "rollout.shared_noise=false", "loss.kl.weight=0.04", "sampler.guidance=3", "advantage.estimator=global"},
		"mixgrpo":       {"optim.updates=1"},
		"mixgrpo_flash": flash, "branchgrpo": branching, "tempflow": trunks,
		"every step draws": {"sampler.outside=flow-sde", "sampler.window.drop=2"},
		"one start":        {"sampler.window={kind='full', drop=1}"},
		"own windows":      {"sampler.window={kind='random', size=1, drop=1, own=true}", "rollout.shared_noise=false"},
		"empty window":     {"sampler.window={kind='sliding', size=1, every=1, drop=3, tail='mixgrpo'}"},
		"pruned":           append(slices.Clone(branching), "sampler.tree.prune={depths=[4], slide=true, stop_depth=2, until=0.8}", "sampler.steps=6", "run.iterations=3"),
		"narrowed":         append(slices.Clone(branching), "sampler.tree.prune={width='branch', ratio=0.7}", "sampler.steps=7"),
		"mixed":            append(slices.Clone(branching), "sampler.tree.prune={mixed=true, mixed_window=1, slide_every=2}", "sampler.steps=6"),
		"nft":              {"loss={objective='nft', times=2, kl={weight=1e-3, estimator='velocity'}}"},
		"awm":              {"loss={objective='awm', times=2, kl={weight=1e-3, estimator='velocity', ema_weight=0.1}}", "optim.ema=0.9"},
		"guided":           {"loss={objective='distill', kl={reference='base', guidance=3}}"},
		"dpo":              {"loss={objective='dpo', times=2}", "advantage.estimator=ends"},
	} {
		iterations := 1
		if slices.Contains([]string{"mixgrpo_flash", "mixed", "awm"}, name) { // which change with the iterations
			iterations = 2
		}
		e := parse(t, append([]string{fmt.Sprint("run.iterations=", iterations), "evaluate.every=0"}, sets...)...)
		p, err := e.Plan()
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "run")
		if _, err := train(t, e, dir, false, 2, -1); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var sum ledger.Passes
		if err := folder.ReadLines(filepath.Join(dir, "ledger.jsonl"), func(text []byte) error {
			var l ledger.Line
			if err := json.Unmarshal(text, &l); err != nil {
				return err
			}
			sum.Rollout, sum.Reference = sum.Rollout+l.Passes.Rollout, sum.Reference+l.Passes.Reference
			sum.Train, sum.Backward = sum.Train+l.Passes.Train, sum.Backward+l.Passes.Backward
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		n, c := float64(e.Run.Iterations), p.Stages[0].Counts
		for what, pair := range map[string][2]float64{"rollout": {float64(sum.Rollout), c.Rollout * n}, "reference": {float64(sum.Reference), c.Reference * n},
			"train": {float64(sum.Train), c.Train * n}, "backward": {float64(sum.Backward), c.Backward * n}} {
			if math.Abs(pair[0]-pair[1]) > 1e-6 {
				t.Errorf("%s, %s: %v passes in %v iterations, %v were planned", name, what, pair[0], n, pair[1])
			}
		}
	}
}

// TestTreesGoOn: runs with trees or a compressed tail that were stopped half-way leave the bytes
// of those that were not, and their first ratios are 1.
func TestTreesGoOn(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	for name, sets := range map[string][]string{"branching": branching, "trunks": trunks, "flash": flash} {
		sets = append([]string{"run.iterations=2"}, sets...)
		dir := t.TempDir()
		whole, parts := filepath.Join(dir, "whole"), filepath.Join(dir, "parts")
		if r, err := train(t, parse(t, sets...), whole, false, 2, -1); err != nil || r.Status != ledger.Finished {
			t.Fatalf("%s: %v, %v", name, r, err)
		}
		for _, part := range []struct {
			threads, stop int
			resume        bool
		}{{1, 1, false}, {2, -1, true}} {
			if _, err := train(t, parse(t, sets...), parts, part.resume, part.threads, part.stop); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		same(t, name, contents(t, whole), contents(t, parts))
		if err := folder.ReadLines(filepath.Join(whole, "ledger.jsonl"), func(text []byte) error {
			var l ledger.Line
			err := json.Unmarshal(text, &l)
			if u := l.Updates; err == nil && (u[0].RatioMost != 1 || u[0].RatioMean != 1 || u[1].RatioMost == 1 || !(u[0].Gradient > 0)) {
				t.Errorf("%s: iteration %d: %+v", name, l.Iteration, u)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}
