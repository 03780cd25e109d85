//go:build linux

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/darkroom-rl/darkroom/cmd/darkroom/plan"
)

// TestPlanMemory: the peak of a process that trains is the one that plan predicts, within 15 %,
// for runs of different size. It needs -long (make memory).
func TestPlanMemory(t *testing.T) {
	if !*long {
		t.Skip("measures whole runs; left out without -long (make memory)")
	}
	file, err := filepath.Abs("../../assets/configs/quickstart.toml")
	if err != nil {
		t.Fatal(err)
	}
	once := []string{"--set", "run.iterations=1", "--set", "evaluate={every=0, prompts=''}", "--set", "monitor=[]", "--set", "reward=[{name='scene'}]"}
	lessons := filepath.Join(t.TempDir(), "lessons.toml")
	if err := os.WriteFile(lessons, []byte(lessonsToml), 0o644); err != nil {
		t.Fatal(err)
	}
	noised := filepath.Join(t.TempDir(), "noised.toml")
	if err := os.WriteFile(noised, []byte(noisedToml), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, sets := range map[string][]string{
		"noised": nil, "noised to many times": {"--set", "loss.times=6"}, "noised to many times together": {"--set", "loss.times=6", "--set", "loss.ratios=sum_first"},
		"lessons": nil, "lessons, fp32": {"--set", "model.precision=f32", "--set", "rollout.prompts_per_iteration=24"},
		"small": {"--set", "rollout.prompts_per_iteration=1", "--set", "rollout.group=4"}, "quickstart": nil,
		"fp32": {"--set", "model.precision=f32"}, "large": {"--set", "rollout.prompts_per_iteration=12", "--set", "rollout.group=24", "--set", "model.lora.rank=128"},
	} {
		file, once := file, once
		if strings.HasPrefix(name, "lessons") {
			file, once = lessons, nil
		} else if strings.HasPrefix(name, "noised") {
			file, once = noised, nil
		}
		command := func(args ...string) *exec.Cmd {
			cmd := exec.Command(os.Args[0])
			cmd.Args = append(append(append([]string{"darkroom"}, args...), once...), sets...) // by this name the test binary is the program
			cmd.Dir = t.TempDir()
			return cmd
		}
		said, err := command("plan", file, "--json").Output()
		if err != nil {
			t.Fatal(err)
		}
		var plan plan.Document
		if err := json.Unmarshal(said, &plan); err != nil || plan.Memory == nil {
			t.Fatalf("%s: %v: %s", name, err, said)
		}
		run := command("train", file, "--out", "run")
		if log, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, log)
		}
		peak := float64(run.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) * 1024
		off := float64(plan.Memory.Peak)/peak - 1
		t.Logf("%s: %.0f MiB, %.0f predicted (%+.1f %%)", name, peak/(1<<20), float64(plan.Memory.Peak)/(1<<20), 100*off)
		if off > 0.15 || off < -0.15 {
			t.Errorf("%s: the prediction is %.1f %% off", name, 100*off)
		}
	}
}

// noisedToml is a run whose samples are noised anew.
const noisedToml = `[run]
name = "noised"
iterations = 1
[model]
path = "embed:tiny-sd3"
[sampler]
solver = "euler"
steps = 4
width = 64
height = 64
[rollout]
prompts = "embed:scenes"
prompts_per_iteration = 4
group = 64
[[reward]]
name = "scene"
[loss]
objective = "awm"
adv_clip = 1
ratios = "exp_first"
kl = { weight = 0.1, estimator = "velocity" }
`

// lessonsToml is a run whose conversations are as long as plan says they are: those of a file.
const lessonsToml = `[run]
name = "lessons"
iterations = 1
[model]
path = "embed:tiny-vlm"
train = ['model\..*']
[episode]
protocol = "darkroom"
tokens = 400
pictures = 5
[rollout]
prompts = "embed:zoom"
prompts_per_iteration = 8
lessons = "embed:zoom-lessons"
group = 1
[loss]
objective = "sft"
[[reward]]
name = "accuracy"
`
