package run

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/golden"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// onLadder is an experiment on a Stable Diffusion 1.5 with tiny networks, which predict noise.
var onLadder = `
[run]
name = "ladder"
iterations = 2
[model]
path = "` + golden.Folder("models") + `/pipe_sd15"
precision = "f32"
[model.lora]
targets = ["to_q", "to_v"]
[sampler]
preset = "ddpo"
steps = 3
eval_steps = 2
guidance = 1
[rollout]
prompts = "embed:scenes"
prompts_per_iteration = 2
group = 2
[[reward]]
name = "jpeg"
[optim]
lr = 1e-3
`

// TestLadders: objectives on noised samples train a ladder, where Diffusion-DPO was published. Policy and reference are
// one at first, so that dpo begins with log 2, and the weights move.
func TestLadders(t *testing.T) {
	if testing.Short() {
		t.Skip("trains a tiny Stable Diffusion: seconds; left out by -short")
	}
	for objective, estimator := range map[string]string{"dpo": "ends", "rwr": "group", "sft": "best", "dgpo": "group"} {
		e := parseText(t, onLadder, "loss.objective="+objective, "advantage.estimator="+estimator, "loss.beta=1000")
		var lines []*ledger.Line
		_, err := trainWith(t, e, filepath.Join(t.TempDir(), objective), false, 2, func(l *ledger.Line) bool { lines = append(lines, l); return false })
		if err != nil || len(lines) != 2 {
			t.Errorf("%s: %d iterations, %v", objective, len(lines), err)
			continue
		}
		first, second := lines[0].Updates[0], lines[1].Updates[0]
		if !(first.Gradient > 0) || math.IsNaN(first.Loss) || math.IsNaN(second.Loss) || !(second.Gradient > 0) {
			t.Errorf("%s: %+v, %+v", objective, first, second)
		}
		if objective == "dpo" && (math.Abs(first.Loss-math.Ln2) > 1e-12 || second.Loss == first.Loss) {
			t.Errorf("dpo begins with %v, not log 2, and goes on with %v", first.Loss, second.Loss)
		}
	}
}
