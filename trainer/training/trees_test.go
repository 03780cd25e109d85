package training

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

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/folder"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
	"github.com/darkroom-rl/darkroom/trainer/rollout"
)

// What makes the small experiment one of trees, or of a compressed tail.
var (
	branching = []string{"sampler.solver=dance", "sampler.window={kind='full', drop=1}", "sampler.tree={splits=[0, 2], scale=2.0}", "advantage.estimator=tree", "rollout.group=4"}
	trunks    = []string{"sampler.tree={kind='trunk', children=2}", "rollout.group=4", "loss.kl={weight=0.01, over='deviation'}"}
	flash     = []string{"sampler.steps=8", "sampler.window={kind='sliding', size=2, every=1, drop=3}", "sampler.flash={ratio=0.6}"}
)

// leaves are samples of a forest as the policy rolls them, without pictures.
func leaves(f *rollout.Forest, steps []int, prompts, each int) []trainer.Sample {
	var all []trainer.Sample
	for p := range prompts {
		for k := range each {
			s := trainer.Sample{Key: trainer.Key{Prompt: p, Sample: k}}
			for _, step := range steps {
				if n := f.Node(k, step); f.Shape.SDE[n] {
					s.Decisions.Step = append(s.Decisions.Step, step)
					s.Decisions.LogProb = append(s.Decisions.LogProb, -float64(n))
					s.Decisions.Trained = append(s.Decisions.Trained, true)
				}
			}
			all = append(all, s)
		}
	}
	return all
}

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

// TestCredit: every edge that drew and is not pruned is judged once, by what the estimator says
// of it, whoever of the leaves below has a score.
func TestCredit(t *testing.T) {
	for name, sets := range map[string][]string{"branching": branching, "trunks": trunks,
		"by probability": append(slices.Clone(branching), "sampler.tree.fuse=probability"),
		"pruned":         append(slices.Clone(branching), "sampler.tree.prune.depths=[2]"),
		"narrowed":       append(slices.Clone(branching), "sampler.steps=7", "sampler.tree.prune.width=ends", "sampler.tree.prune.ratio=0.5"),
		"rewards":        append(slices.Clone(branching), `reward=[{name="scene"}, {name="jpeg", weight=3}]`, "advantage.combine=advantages")} {
		turn, err := parse(t, sets...).Turn(1)
		if err != nil {
			t.Fatal(err)
		}
		f, err := forest(turn)
		if err != nil {
			t.Fatal(err)
		}
		samples := leaves(f, turn.Trained, 2, turn.Samples())
		rewards, weights := [][]float64{make([]float64, len(samples))}, []float64(nil)
		for i := range samples {
			rewards[0][i] = math.Sin(float64(3 * i))
		}
		rewards[0][0], rewards[0][5] = math.NaN(), math.NaN()
		if name == "rewards" {
			other := slices.Clone(rewards[0])
			slices.Reverse(other)
			other[0], other[5] = rewards[0][0], rewards[0][5]
			for i, v := range rewards[0] {
				if math.IsNaN(other[i]) && !math.IsNaN(v) {
					other[i] = 1
				}
			}
			rewards, weights = append(rewards, other), []float64{1, 3}
		}
		got, err := credit(turn, f, samples, rewards, weights)
		if err != nil {
			t.Fatal(err)
		}
		judged := map[string]float64{}
		for i, s := range samples {
			if math.IsNaN(got[i]) != math.IsNaN(rewards[0][i]) {
				t.Errorf("%s: sample %d has the reward %v and the advantage %v", name, i, rewards[0][i], got[i])
			}
			tree, _ := f.At(s.Key.Sample)
			for k, step := range s.Decisions.Step {
				if !s.Decisions.Trained[k] {
					continue
				}
				edge := fmt.Sprint(s.Key.Prompt, tree, f.Node(s.Key.Sample, step))
				if _, twice := judged[edge]; twice || math.IsNaN(got[i]) {
					t.Errorf("%s: edge %s is judged twice, or by a sample without a score", name, edge)
				}
				judged[edge] = s.Decisions.Advantage[k]
			}
		}
		want, known := map[string]float64{}, 0
		trees := grow(f, samples)
		for i, g := range trees {
			worth := make([]float64, len(g.Parent))
			for r, scores := range rewards {
				a, err := compareLeaves(turn, trees, scores)
				if err != nil {
					t.Fatal(err)
				}
				w := 1.0
				if weights != nil {
					w = weights[r]
				}
				for n := range worth {
					worth[n] += w * a[i][n]
				}
			}
			number := 0
			if place := slices.IndexFunc(g.sample, func(i int) bool { return i >= 0 }); place >= 0 {
				number, _ = f.At(samples[g.sample[place]].Key.Sample)
			}
			for _, n := range turn.Judged(g.Tree, worth) {
				want[fmt.Sprint(g.prompt, number, n)] = worth[n]
				known++
			}
		}
		if len(judged) != known || known == 0 {
			t.Errorf("%s: %d edges are judged of %d", name, len(judged), known)
		}
		for edge, a := range judged {
			if w, ok := want[edge]; !ok || a != w {
				t.Errorf("%s: edge %s has %v, not %v", name, edge, a, w)
			}
		}
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
		"empty window":     {"sampler.window={kind='sliding', size=1, every=1, drop=3, tail='mixgrpo'}"},
		"pruned":           append(slices.Clone(branching), "sampler.tree.prune={depths=[4], slide=true, stop_depth=2, until=0.8}", "sampler.steps=6", "run.iterations=3"),
		"narrowed":         append(slices.Clone(branching), "sampler.tree.prune={width='branch', ratio=0.7}", "sampler.steps=7"),
		"mixed":            append(slices.Clone(branching), "sampler.tree.prune={mixed=true, mixed_window=1, slide_every=2}", "sampler.steps=6"),
		"nft":              {"loss={objective='nft', times=2, kl={weight=1e-3, estimator='velocity'}}"},
	} {
		e := parse(t, append([]string{"run.iterations=2", "evaluate.every=0"}, sets...)...)
		p, err := e.Plan()
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "run")
		if _, err := train(t, e, dir, false, 2, -1); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var sum rollout.Passes
		if err := folder.ReadLines(filepath.Join(dir, "ledger.jsonl"), func(text []byte) error {
			var l Line
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
		if r, err := train(t, parse(t, sets...), whole, false, 2, -1); err != nil || r.Status != Finished {
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
			var l Line
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
