package run

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// TestObjectives: every objective that can be trained with moves the weights, and says so.
func TestObjectives(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	for name, sets := range map[string][]string{
		"guard": {"loss.objective=guard"}, "dppo": {"loss.objective=dppo"}, "clip, kl": {"loss.kl.weight=0.01"}, "global": {"advantage.estimator=global"},
		"cps": {"sampler.solver=cps"}, "dance": {"sampler.solver=dance"}, "guidance": {"sampler.guidance=3"}, "split": {"optim.split=true", "optim.updates=3"},
		"win-rate": {"advantage.estimator=win-rate"}, "reinforce++": {"advantage.estimator=reinforce++"},
		"history": {"advantage.estimator=history"}, "ema": {"optim.ema=0.9"},
		"nft":     {"loss.objective=nft", "loss.times=2"},
		"crd":     {"loss.objective=crd", "loss.times=2", "loss.kl={weight=1e-3, estimator='velocity'}"},
		"awm":     {"loss.objective=awm", "loss.times=2", "loss.clip_range=0.1"}, // within 1e-3 nothing is left of the second update
		"rewards": {whole, `reward=[{name="clip"}, {name="aesthetic", weight=0.1}, {name="jpeg", weight=3}]`, "advantage.combine=advantages"},
		"dpo":     {"loss.objective=dpo", "advantage.estimator=ends"},
		"rwr":     {"loss.objective=rwr", "advantage.estimator=dr"},
		"sft":     {"loss.objective=sft", "advantage.estimator=best"},
		"dgpo":    {"loss.objective=dgpo"},
		"offline": {"loss.objective=dpo", "advantage.estimator=ends", "rollout.offline=true", "rollout.prompts=embed:scene-pairs", "rollout.group=2"},
		"srpo":    {"loss.objective=reward-gradient", whole, `reward=[{name="clip", relative={positive="red", negative="blue", k=0.2}}, {name="aesthetic", weight=0.1, scale={kind="range", high=2}}]`, "loss.gradient.margin=2", "rollout.group=2", "optim.updates=1"},
		"draft":   {"loss.objective=reward-gradient", whole, `reward=[{name="clip"}]`, `loss.gradient={through="draft", steps=2}`, "sampler.guidance=3", "rollout.group=2", "optim.updates=1"},
		"full":    {"model.train=full", "optim.lr=1e-4"},
		"pattern": {`model.train=["transformer_blocks\\.0\\.attn\\..*"]`},
	} {
		t.Run(name, func(t *testing.T) {
			dir, iterations := filepath.Join(t.TempDir(), "run"), 1 // of two updates, the second with weights that moved
			if name == "history" || name == "ema" {
				iterations = 2 // which look back at others
			}
			e := parse(t, append([]string{fmt.Sprint("run.iterations=", iterations), "evaluate.every=0"}, sets...)...)
			if _, err := train(t, e, dir, false, 2, -1); err != nil {
				t.Fatal(err)
			}
			n := 0
			if err := folder.ReadLines(filepath.Join(dir, "ledger.jsonl"), func(text []byte) error {
				var l ledger.Line
				if err := json.Unmarshal(text, &l); err != nil {
					return err
				}
				for _, u := range l.Updates {
					if !(u.Gradient > 0) {
						t.Errorf("iteration %d: the gradient's norm is %v", l.Iteration, u.Gradient)
					}
				}
				checkWatched(t, e, &l)
				n++
				return nil
			}); err != nil || n != iterations {
				t.Errorf("%d lines, %v", n, err)
			}
		})
	}
}

// TestAverageCountsUpdates: optim.ema_every counts updates, of which an iteration may have several.
func TestAverageCountsUpdates(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	if _, err := train(t, parse(t, "run.iterations=1", "evaluate.every=0", "evaluate.prompts=''", "optim.ema=0.9", "optim.ema_every=8"), dir, false, 2, -1); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "checkpoints", "000001", stateFile))
	if err != nil {
		t.Fatal(err)
	}
	var c state
	if err := json.Unmarshal(text, &c); err != nil || !slices.Equal(c.Paces, []int{2}) {
		t.Errorf("after an iteration of two updates the average has made the steps %v, %v", c.Paces, err)
	}
}

// checkWatched: the ledger has every number that can be watched, and none of an objective is left out.
func checkWatched(t *testing.T, e *experiment.Experiment, l *ledger.Line) {
	t.Helper()
	known := map[string]bool{}
	for _, n := range e.Watched() {
		known[n.Name] = true
		if strings.HasPrefix(n.Name, "heldout.") || slices.Contains([]string{"ratio", "mismatch", "clip_fraction", "noise_floor"}, n.Name) && e.Noised() {
			continue
		}
		some := n.Name == "noise_floor" || strings.HasPrefix(n.Name, "episode.score_") // of episodes that there need not be
		if _, ok := l.Value(n.Name); !ok && !some {
			t.Errorf("%s can be watched, and is not in the ledger", n.Name)
		}
	}
	for name := range l.Updates[0].Metrics {
		if !known[name] {
			t.Errorf("%s is in the ledger, and cannot be watched: add it to objectiveNumbers", name)
		}
	}
}

// TestRewardGradient: two or three updates along the reward's own gradient raise it on the prompts that
// they saw, whichever way it goes.
func TestRewardGradient(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	dir := t.TempDir()
	seen, again := filepath.Join(dir, "seen.txt"), filepath.Join(dir, "again.txt")
	for _, path := range []string{seen, again} {
		if err := os.WriteFile(path, []byte("three red circles on gray\na green triangle below a purple square on white\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, sets := range map[string][]string{
		"direct": {`loss.gradient={through="direct", step=0.1, low=0.5, high=0.98}`, "run.iterations=2"},
		"refl":   {`loss.gradient={through="refl", steps=3}`, "optim.lr=6e-3"},
		"draft":  {`loss.gradient={through="draft", steps=3}`, "optim.lr=6e-3"},
	} {
		t.Run(name, func(t *testing.T) {
			e := parse(t, append([]string{whole, "rollout.prompts=" + seen, "evaluate.prompts=" + again, "run.iterations=3", "rollout.group=2", "loss.objective=reward-gradient", `reward=[{name="clip"}]`,
				"sampler.solver=euler", "rollout.shared_noise=false", "sampler.eval_steps=4", "evaluate.every=0", "evaluate.samples=2", "optim.updates=1", "optim.lr=3e-3", `model.lora={rank=8, alpha=16, targets=["attn.to_q", "attn.to_v", "attn.add_k_proj", "attn.add_v_proj", "attn.to_out.0"]}`, "checkpoint.every=5"}, sets...)...)
			r, err := train(t, e, filepath.Join(t.TempDir(), "run"), false, 2, -1)
			if err != nil {
				t.Fatal(err)
			}
			if g := r.HeldOut["clip"]; !(g.After.Mean > g.Before.Mean+0.04) {
				t.Errorf("the reward went from %v to %v", g.Before.Mean, g.After.Mean)
			}
			t.Logf("%v to %v", r.HeldOut["clip"].Before.Mean, r.HeldOut["clip"].After.Mean)
		})
	}
}

// TestImitates: rollouts and written answers are learned from in one update (CHORD): the first ratio is 1, and the
// share of written answers follows the stage's iterations.
// Where no group tells its samples apart they are learned from alone.
func TestImitates(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a small model and trains it: seconds, and minutes without assembly; left out by -short")
	}
	t.Parallel()
	dir := t.TempDir()
	e := parseText(t, presetTalk, fewQuestions(t), speaker(t), "run.iterations=5", "rollout.prompts_per_iteration=1", "rollout.group=4", "optim.lr=1e-3", "checkpoint.every=5", "episode.sampling.temperature=0.01",
		"rollout.lessons="+taughtLessons(t), "loss.imitate={weight=0.8, least=0.2, warmup=1, decay=1, rows=3}",
		`stage=[{iterations=2, advantage.all_dead="train"}, {iterations=3}]`)
	if r, err := train(t, e, dir, false, 2, -1); err != nil || r.Status != ledger.Finished {
		t.Fatalf("%v, %v", r, err)
	}
	lines := ledgerOf(t, dir)
	if u := lines[0].Updates[0]; u.RatioMost != 1 || u.Metrics["nll"] != 0 {
		t.Errorf("the first iteration imitates nothing: %+v", u)
	}
	if l := lines[2]; len(l.Updates) > 0 || l.Passed == "" {
		t.Errorf("the second stage begins with a share of 0, and dead groups: %+v", l)
	}
	for i, want := range map[int]struct{ share, ratio float64 }{1: {0.8, 1}, 3: {0.8, 0}, 4: {0.2, 0}} {
		l := lines[i]
		if len(l.Updates) != 1 || (l.Passed == "") != (want.ratio == 1) {
			t.Errorf("iteration %d has %d updates, passed %q", i+1, len(l.Updates), l.Passed)
			continue
		}
		if u := l.Updates[0]; u.Metrics["imitated"] != want.share || u.Metrics["nll"] <= 0 || u.Gradient == 0 || u.RatioMost != want.ratio {
			t.Errorf("iteration %d: %+v", i+1, u)
		}
	}
}
