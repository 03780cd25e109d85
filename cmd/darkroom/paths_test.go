package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
)

// everyPath is a run that decides, noises and follows a gradient in turn: three stages of one
// iteration, with guidance, rewards by networks and by rule, and an evaluation after each.
const everyPath = `
[run]
name = "paths"
iterations = 3
[model]
path = "embed:tiny-sd3"
lora = { rank = 2, alpha = 4, targets = ["attn.to_q", "attn.add_v_proj"] }
[sampler]
steps = 3
eval_steps = 2
guidance = 2
window = { kind = "frozen", size = 2 }
[rollout]
prompts = "scenes.txt"
prompts_per_iteration = 1
group = 3
[[reward]]
name = "clip"
[[reward]]
name = "aesthetic"
weight = 0.1
[[reward]]
name = "scene"
train = false
[optim]
lr = 1e-2
[evaluate]
every = 1
prompts = "p.txt"
[[stage]]
iterations = 1
optim.updates = 2
[[stage]]
iterations = 1
loss = { objective = "nft", kl = { weight = 0.01, estimator = "velocity" } }
[[stage]]
iterations = 1
loss = { objective = "reward-gradient" }
`

// TestPathsAgree: every set of kernels that this CPU has writes the same run: ledger, samples,
// adapter, state, pictures, page. Each is a process of its own; one has one thread alone.
func TestPathsAgree(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the embedded model a few times; left out by -short")
	}
	paths := isa.Paths()[1:] // plain Go takes minutes: kernels hold it to the same bits
	if len(paths) < 2 {
		t.Skipf("this CPU has no second path to compare with: at most %s", isa.Best())
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"paths.toml": everyPath, "p.txt": "a red circle on white\n", "scenes.txt": fewScenes} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var first map[string][]byte
	var firstPath isa.Path
	ran := 0
	for _, p := range paths {
		cmd := exec.Command(os.Args[0])
		cmd.Args = []string{"darkroom", "train", "paths.toml", "--out", p.String() + "/run"} // by this name the test binary is the program
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "DARKROOM_CPU="+p.String())
		if ran == 1 {
			cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
		}
		var log bytes.Buffer
		if cmd.Stderr = &log; cmd.Run() != nil {
			t.Fatalf("%s:\n%s", p, &log)
		}
		ran++
		all := files(t, filepath.Join(dir, p.String(), "run"))
		for name := range all {
			if strings.HasSuffix(name, "manifest.json") || strings.HasSuffix(name, "report.html") {
				delete(all, name) // which name the path, and the time it took
			}
		}
		if first == nil {
			first, firstPath = all, p
			for _, name := range []string{"ledger.jsonl", "samples.jsonl", "checkpoints/000003/adapter_model.safetensors"} {
				if len(all[filepath.FromSlash(name)]) == 0 {
					t.Errorf("%s is empty", name)
				}
			}
			continue
		}
		for name := range first {
			if !bytes.Equal(first[name], all[name]) {
				t.Errorf("%s: %s differs from that of %s", p, name, firstPath)
			}
		}
		if len(all) != len(first) {
			t.Errorf("%s: %d files, %s: %d", p, len(all), firstPath, len(first))
		}
	}
}
