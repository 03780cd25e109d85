package main

import (
	"bytes"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

var pairs = flag.Int("pairs", 0, "how often to time a run on one core and on two; 0: it is not timed (make gradients-time)")

// timed is an experiment whose iterations are passes of the network: pictures of four times as many pixels as the model
// draws.
const timed = `
[run]
name = "timed"
iterations = 4
shards = 8
[model]
path = "embed:tiny-sd3"
lora = { rank = 32, alpha = 64, targets = ["attn.to_q", "attn.to_k", "attn.to_v", "attn.to_out.0"] }
[sampler]
steps = 8
guidance = 1
width = 128
height = 128
window = { kind = "sliding", size = 4, every = 1 }
[rollout]
prompts = "embed:scenes"
prompts_per_iteration = 4
group = 8
[[reward]]
name = "sharpness"
[loss]
clip_range = 5e-3
noise_floor = "off"
[optim]
lr = 1e-3
[evaluate]
every = 0
`

// TestGradientsTime: an iteration by a trainer on core 0 and a worker on core 1, which rolls and computes gradients,
// takes at most 0.6 of that by the trainer alone on core 0. Both run in turn, and leave the same ledger.
func TestGradientsTime(t *testing.T) {
	if *pairs == 0 {
		t.Skip("times two cores of a quiet machine for minutes; left out without -pairs (make gradients-time)")
	}
	if runtime.GOOS != "linux" || runtime.NumCPU() < 2 {
		t.Skip("two cores and taskset are needed")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "timed.toml"), []byte(timed), 0o644); err != nil {
		t.Fatal(err)
	}
	on := func(core int, args ...string) (*exec.Cmd, *bytes.Buffer) {
		cmd := exec.Command("taskset", append([]string{"-c", fmt.Sprint(core), "bash", "-c", `exec -a darkroom "$0" "$@"`, os.Args[0]}, args...)...)
		var log bytes.Buffer
		cmd.Dir, cmd.Stderr, cmd.Env = dir, &log, append(os.Environ(), "GOMAXPROCS=1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, &log
	}
	// ended are the seconds of a run's iterations but the first, in the order of their length, and those of the CPU.
	ended := func(out string, trainer *exec.Cmd, log *bytes.Buffer) (all []float64, cpu time.Duration) {
		if err := trainer.Wait(); err != nil {
			t.Fatalf("%s: %v\n%s", out, err, log)
		}
		of, err := ledger.ReadTiming(filepath.Join(dir, out, "timing.jsonl"))
		if err != nil || len(of) < 2 {
			t.Fatal(len(of), err)
		}
		for n, seconds := range of {
			if n > 1 {
				all = append(all, ledger.Work(seconds))
				t.Logf("%s, iteration %d: %.2f s to roll, %.2f s to train, of %.2f", out, n, seconds["roll"], seconds["train"], ledger.Work(seconds))
			}
		}
		slices.Sort(all)
		return all, trainer.ProcessState.UserTime() + trainer.ProcessState.SystemTime()
	}
	var ratios []float64
	for n := range *pairs {
		one, two := fmt.Sprint("one", n), fmt.Sprint("two", n)
		trainer, log := on(0, "train", "timed.toml", "--out", one)
		alone, cpu := ended(one, trainer, log)
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at := free.Addr().String()
		if err := free.Close(); err != nil {
			t.Fatal(err)
		}
		trainer, log = on(0, "train", "timed.toml", "--out", two, "--listen", at)
		join := filepath.Join(dir, two, "join")
		await(join)
		worker, _ := on(1, "worker", "--join", join, "--name", "w", "--roles", "roll,gradient")
		helped, own := ended(two, trainer, log)
		_ = worker.Process.Signal(os.Interrupt)
		_ = worker.Wait()
		theirs := worker.ProcessState.UserTime() + worker.ProcessState.SystemTime()
		ratios = append(ratios, helped[len(helped)/2]/alone[len(alone)/2])
		t.Logf("alone %.2f s an iteration (%.1f CPU s); with a worker %.2f s (trainer %.1f, worker %.1f CPU s): %.3f of the median, %.3f of the least",
			alone[len(alone)/2], cpu.Seconds(), helped[len(helped)/2], own.Seconds(), theirs.Seconds(), ratios[n], helped[0]/alone[0])
		x, err := os.ReadFile(filepath.Join(dir, one, "ledger.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		if y, err := os.ReadFile(filepath.Join(dir, two, "ledger.jsonl")); err != nil || !bytes.Equal(x, y) {
			t.Errorf("the ledger has other bytes with a worker (%v)", err)
		}
	}
	slices.Sort(ratios)
	t.Logf("%d pairs: least %.3f, median %.3f", *pairs, ratios[0], ratios[len(ratios)/2])
	if median := ratios[len(ratios)/2]; median > 0.6 {
		t.Errorf("an iteration with a worker takes %.3f of that without, and at most 0.6 is the aim", median)
	}
}
