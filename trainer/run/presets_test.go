package run

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/golden"

	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// somePresets are trained always: one of pictures and one of tokens.
var somePresets = []string{"cps", "pkpo"}

// TestPresets: every preset trains ten iterations on a small model of its kind. The weights move, and the first ratio
// is 1 where there is one.
func TestPresets(t *testing.T) {
	if testing.Short() {
		t.Skip("trains two models; left out by -short")
	}
	if !*long {
		t.Logf("of %d presets %s are trained; -long trains them all (make presets)", len(experiment.Presets()), strings.Join(somePresets, " and "))
	}
	for _, p := range experiment.Presets() {
		if !*long && !slices.Contains(somePresets, p.Name.Name) {
			continue
		}
		t.Run(p.Name.Name, func(t *testing.T) { tryPreset(t, p) })
	}
}

func tryPreset(t *testing.T, p experiment.Preset) {
	t.Helper()
	name := p.Name.Name
	e, dir := smallOf(t, p), t.TempDir()
	iterations := e.Run.Iterations
	result, err := train(t, e, dir, false, 2, -1)
	if err != nil {
		t.Fatal(err)
	}
	lines := readLedger(t, dir)
	if result.Status != ledger.Finished || len(lines) != iterations {
		t.Fatalf("%d iterations, %s", len(lines), result.Status)
	}
	if c := lines[0].Check; c != nil && c.Ratio != 1 {
		t.Errorf("the first ratio is %v", c.Ratio)
	}
	if u := lines[0].Updates; len(u) > 0 && u[0].RatioMost != 0 && u[0].RatioMost != 1 && name != "gepo" { // whose ratio is to a group's mean
		t.Errorf("the first update's ratios go up to %v", u[0].RatioMost)
	}
	moved, rewards := 0, 0.0
	for _, l := range lines {
		for _, u := range l.Updates {
			if u.Gradient > 0 && u.Rate > 0 {
				moved++
			}
		}
		rewards += l.Total.Mean / float64(iterations)
	}
	if moved == 0 {
		t.Error("no update had a gradient")
	}
	t.Logf("%s: %d updates with a gradient in %d iterations, mean total %.3f", name, moved, iterations, rewards)
}

// smallOf is an experiment of a preset on the smallest model of its kind.
func smallOf(t *testing.T, p experiment.Preset, more ...string) *experiment.Experiment {
	t.Helper()
	name, few := p.Name.Name, []string{"preset=" + p.Name.Name, "rollout.prompts_per_iteration=2", "optim.lr=1e-3", "checkpoint.every=100"}
	group := func(n string) string { return "rollout.group=" + n }
	switch {
	case strings.Contains(p.Text, `kind = "unipc"`):
		return parseClips(t, append(append(few, "run.iterations=10", group("4"), "sampler.steps=4", `sampler.window={kind="full"}`), more...)...)
	case strings.Contains(p.Text, `kind = "ddpm"`):
		return parseText(t, pictureOf(golden.Folder("models")+"/pipe_sd15"), append(append(few, "sampler.steps=4", "rollout.prompts_per_iteration=4", "sampler.guidance=1"), more...)...)
	case strings.Contains(p.Text, "[sampler]"):
		sets := append(few, "sampler.guidance=1", "sampler.guidance_kind=cfg")
		if !strings.Contains(p.Text, "tree") { // whose leaves are its group
			sets = append(sets, group("4"))
		}
		return parseText(t, pictureOf("nowhere"), append(append(sets, tiny(t)), more...)...)
	}
	sets := append(few, speaker(t), fewQuestions(t))
	switch name {
	case "single_stream": // whose groups are of one
	case "g2rpo_a": // which gives the beginning of a solution to a part of each group
		sets = append(sets, group("6"), "rollout.prompts=embed:zoom-solved", "episode.guided.tokens=6")
	case "tree_grpo": // whose groups are two trees of three
		sets = append(sets, group("6"))
	case "cppo": // whose groups keep half of their samples
		sets = append(sets, group("4"), "advantage.best_of=2")
	case "mini_o3": // whose protocol has a tool of its own
		sets = append(sets, group("4"), `episode.tools=["grounding"]`)
	default:
		sets = append(sets, group("4"))
	}
	return parseText(t, presetTalk, append(sets, more...)...)
}

// presetTalk has the rewards of a preset of tokens: whether an answer is right, and how it calls, so that groups
// differ. Totals stay within 0 and 1, which some estimators ask for.
const presetTalk = `
[run]
name = "preset"
iterations = 10
[model]
train = ['model\..*']
[episode]
system = "" # nobody has taught the model to read what tools do
tools = ["zoom"]
turns = 2
turn_tokens = 16
tokens = 300
[rollout]
prompts = "embed:zoom"
[[reward]]
name = "accuracy"
weight = 0.2
[[reward]]
name = "calls"
weight = 0.2
[evaluate]
every = 100
`

// pictureOf has the settings of a preset of pictures.
func pictureOf(model string) string {
	return `
[run]
name = "preset"
iterations = 10
[model]
path = "` + filepath.ToSlash(model) + `"
lora = { rank = 4, alpha = 8, targets = ["to_q", "to_k"] }
[sampler]
width = 32
height = 32
eval_steps = 2
[rollout]
prompts = "testdata/prompts.txt"
[[reward]]
name = "sharpness"
[evaluate]
every = 100
`
}
