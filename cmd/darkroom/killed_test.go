package main

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/trainer/folder"
	"github.com/darkroom-rl/darkroom/trainer/pretrain"
	"github.com/darkroom-rl/darkroom/trainer/pretrain/brief"
)

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

// TestKilled: a run that is killed at random moments, and goes on each time, leaves the bytes of
// one that was left alone. DARKROOM_KILLS says how often (make kill); the moments are drawn anew
// every time, and told.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds; left out by -short")
	}
	t.Run("pictures", func(t *testing.T) {
		dir := t.TempDir()
		denoiser(t, dir)
		killAndGoOn(t, dir, killed, 3, 6, "p.txt", oneScene)
	})
	t.Run("episodes", func(t *testing.T) {
		dir := t.TempDir()
		speaker(t, filepath.Join(dir, "speaker"), 40)
		killAndGoOn(t, dir, killedTalk, 2, 3, "p.jsonl", `{"prompt": "Which digit is on the red card?", "meta": {"picture": "embed:cards/20000", "answer": "7", "calls": 1}}`)
	})
}

// denoiser makes the small model of pictures in a folder.
func denoiser(t *testing.T, dir string) {
	t.Helper()
	if err := brief.Denoiser(filepath.Join(dir, "denoiser")); err != nil {
		t.Fatal(err)
	}
}

// toKill writes an experiment of so many iterations, killed.toml, with its prompts and its held-out ones.
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
	if err := pretrain.Run(&r, dir, pretrain.Hooks{Backend: be, Say: func(string) {}}); err != nil {
		t.Fatal(err)
	}
}

// oneScene is held out.
const oneScene = "a red circle on white\n"

// fewScenes are enough to draw from: every process encodes all that it may draw.
const fewScenes = "a blue square on black\ntwo green triangles on gray\na purple circle left of a red square on white\nthe word \"CAT\" in red on white\n"

// killAndGoOn kills a run so often, or as DARKROOM_KILLS says; prompts are the held-out ones.
func killAndGoOn(t *testing.T, dir, config string, kills, iterations int, prompts, text string) {
	if n, err := strconv.Atoi(os.Getenv("DARKROOM_KILLS")); err == nil {
		kills, iterations = n, 40
	}
	toKill(t, dir, config, iterations, prompts, text)
	train := func(out string, args ...string) (*exec.Cmd, *bytes.Buffer) {
		cmd := exec.Command(os.Args[0])
		cmd.Args = append([]string{"darkroom", "train", "killed.toml", "--out", out}, args...) // by this name the test binary is the program
		cmd.Dir = dir
		var log bytes.Buffer
		cmd.Stderr = &log
		return cmd, &log
	}
	began := time.Now()
	if cmd, log := train("whole/run"); cmd.Run() != nil {
		t.Fatal(log)
	}
	whole := time.Since(began)
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	for k := range kills {
		cmd, log := train("parts/run", goingOn(filepath.Join(dir, "parts", "run"))...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		after := time.Duration(r.Float64() * float64(whole) * 2 / float64(kills))
		time.Sleep(after)
		_ = cmd.Process.Kill() // one that has ended is as good
		err := cmd.Wait()
		var exit *exec.ExitError
		switch {
		case err == nil:
			t.Logf("attempt %d ended before it could be killed", k)
		case errors.As(err, &exit) && exit.ExitCode() == -1:
			t.Logf("attempt %d killed after %v", k, after)
		default:
			t.Fatalf("attempt %d: %v\n%s", k, err, log)
		}
	}
	if cmd, log := train("parts/run", goingOn(filepath.Join(dir, "parts", "run"))...); cmd.Run() != nil {
		t.Fatal(log)
	}
	a, b := files(t, filepath.Join(dir, "whole", "run")), files(t, filepath.Join(dir, "parts", "run"))
	for name := range a {
		if !bytes.Equal(a[name], b[name]) {
			t.Errorf("%s differs from that of the run which was left alone", name)
		}
	}
	for name := range b {
		if a[name] == nil {
			t.Errorf("%s is not among the files of the run which was left alone", name)
		}
	}
}

// goingOn is --resume where a run was begun: a process may be killed before it has one.
func goingOn(dir string) []string {
	if _, err := os.Stat(filepath.Join(dir, folder.Config)); err != nil {
		return nil
	}
	return []string{"--resume"}
}

// files are those of a run that depend on nothing but its experiment: the page shows how long
// things took, too.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "timing.jsonl" || d.Name() == "report.html" || d.Name() == "lock" {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil {
			all[name], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
