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
