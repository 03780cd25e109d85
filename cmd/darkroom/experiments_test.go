package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/internal/golden"

	"github.com/darkroom-rl/darkroom/internal/rigs/brief"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/trainer/pretrain"
)

// Experiments of moments, to be killed, broken and starved.

// killed makes pictures.
const killed = `
[run]
name = "killed"
iterations = ITERATIONS
[model]
path = "denoiser"
lora = { rank = 2, alpha = 4, targets = ["attn.to_q"] }
[sampler]
steps = 3
eval_steps = 2
guidance = 1
window = { kind = "frozen", size = 2 }
[rollout]
prompts = "scenes.txt"
prompts_per_iteration = 1
group = 3
[[reward]]
name = "jpeg"
[optim]
lr = 1e-2
[evaluate]
every = 2
prompts = "p.txt"
[checkpoint]
every = 1
keep = 2
`

// killedTalk is killed while episodes are played: they take most of its time, for few are learned from.
const killedTalk = `
[run]
name = "killed"
iterations = ITERATIONS
[model]
path = "speaker"
train = ['model\.layers.*']
[episode]
protocol = "darkroom"
tools = ["zoom"]
turns = 3
turn_tokens = 40
tokens = 600
system = ""
parallel = 3
sampling = { temperature = 1.5 }
[rollout]
prompts = "embed:zoom"
prompts_per_iteration = 1
group = 24
[[reward]]
name = "calls"
[loss]
clip_range = 0.2
[advantage]
best_of = 2
[optim]
lr = 1e-3
[evaluate]
every = 3
prompts = "p.jsonl"
[checkpoint]
every = 1
keep = 2
`

// killedClips trains the two networks of a recorded Wan.
const killedClips = `
[run]
name = "killed"
iterations = ITERATIONS
[model]
path = "WAN"
text_length = 8
lora = { rank = 2, alpha = 4, targets = ["to_q"] }
[sampler]
solver = "flow-wan"
noise = 1
schedule = { kind = "unipc", shift = 3 }
steps = 3
eval_steps = 2
guidance = 2
guidance_2 = 1.5
frames = 5
width = 32
height = 32
[rollout]
prompts = "scenes.txt"
prompts_per_iteration = 1
group = 2
[[reward]]
name = "magnitude"
motion = { per_second = 0 }
[loss]
clip_range = 1e-3
[optim]
lr = 1e-2
[evaluate]
every = 2
prompts = "p.txt"
[checkpoint]
every = 1
keep = 2
`

// experimentOf writes an experiment of this number of iterations and its model, and returns the folder of both.
func experimentOf(t *testing.T, kind string, iterations int) string {
	t.Helper()
	dir := t.TempDir()
	prepare(t, dir, kind, iterations)
	return dir
}

// modalities are the modalities of experiments.
var modalities = []string{"pictures", "episodes", "clips"}

// prepare writes an experiment of a kind and its model.
func prepare(t *testing.T, dir, kind string, iterations int) {
	t.Helper()
	switch kind {
	case "pictures":
		toKill(t, dir, killed, iterations, "p.txt", oneScene)
		denoiser(t, dir)
	case "episodes":
		toKill(t, dir, killedTalk, iterations, "p.jsonl", oneCard)
		speaker(t, filepath.Join(dir, "speaker"), 40)
	case "clips":
		wan := golden.Folder("models") + "/pipe_wan22_t2v"
		toKill(t, dir, strings.ReplaceAll(killedClips, "WAN", wan), iterations, "p.txt", oneScene)
	default:
		t.Fatalf("nothing makes %s", kind)
	}
}

// denoiser makes the small model of pictures in a folder.
func denoiser(t *testing.T, dir string) {
	t.Helper()
	if err := brief.Denoiser(filepath.Join(dir, "denoiser")); err != nil {
		t.Fatal(err)
	}
}

// toKill writes an experiment of this number of iterations, killed.toml, with its prompts and its held-out ones.
func toKill(t *testing.T, dir, config string, iterations int, prompts, text string) {
	t.Helper()
	config = strings.ReplaceAll(config, "ITERATIONS", strconv.Itoa(iterations))
	for name, data := range map[string]string{"killed.toml": config, prompts: text, "scenes.txt": fewScenes} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// speaker is a model of moments: of 40 steps it calls tools now and then.
func speaker(t *testing.T, dir string, steps int) {
	t.Helper()
	r := brief.Talker(steps)
	be, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	defer be.Close()
	if err := pretrain.Run(&r, dir, pretrain.Hooks{Backend: be, Log: func(string) {}}); err != nil {
		t.Fatal(err)
	}
}

// oneScene and oneCard are held out.
const (
	oneScene = "a red circle on white\n"
	oneCard  = `{"prompt": "Which digit is on the red card?", "meta": {"picture": "embed:cards/20000", "answer": "7", "calls": 1}}`
)

// fewScenes are enough to draw from: every process encodes all that it may draw.
const fewScenes = "a blue square on black\ntwo green triangles on gray\na purple circle left of a red square on white\nthe word \"CAT\" in red on white\n"
