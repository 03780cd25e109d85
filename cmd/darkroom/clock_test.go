package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// jumps makes the clock of time.Now jump every 10 ms: a day ahead, an hour back, ten years ahead, 30 years back, and
// to the truth again, counted from the process's start. Monotonic times are left alone, as by an operating system
// whose clock is set.
const jumps = `
func jumped(mono int64) int64 { return [...]int64{0, 86400, -3600, 315360000, -946080000}[(mono-startNano)/10_000_000%5] }
`

// TestClockJumps: the clock jumps under a run all the time, and the run leaves the bytes of one whose clock is right;
// so do a trainer and its worker, whose two clocks jump at different times. It needs -long (make faults).
func TestClockJumps(t *testing.T) {
	if !*long {
		t.Skip("builds the program and Go's library anew, which takes minutes; left out without -long (make faults)")
	}
	jumping := buildJumping(t)
	for _, kind := range modalities {
		t.Run(kind, func(t *testing.T) {
			dir := experimentOf(t, kind, 3)
			if cmd, log := started(t, dir, "train", "killed.toml", "--out", "right", "--set", "evaluate.every=1"); cmd.Wait() != nil {
				t.Fatal(log)
			}
			for _, more := range [][]string{{"--set", "run.iterations=2"}, {"--resume"}} {
				args := append([]string{"train", "killed.toml", "--out", "jumps", "--set", "evaluate.every=1"}, more...)
				if cmd, log := startedAs(t, jumping, dir, args...); cmd.Wait() != nil {
					t.Fatal(log)
				}
			}
			sameRun(t, filepath.Join(dir, "right"), filepath.Join(dir, "jumps"))
			checkTimes(t, filepath.Join(dir, "jumps", "timing.jsonl"))
		})
	}
	t.Run("fleet", func(t *testing.T) {
		dir := experimentOf(t, "pictures", 3)
		if cmd, log := started(t, dir, "train", "killed.toml", "--out", "right"); cmd.Wait() != nil {
			t.Fatal(log)
		}
		trainer, log := startedAs(t, jumping, dir, "train", "killed.toml", "--out", "jumps", "--listen", "127.0.0.1:0", "--leave-rolls")
		late := time.AfterFunc(3*time.Minute, func() { _ = trainer.Process.Kill() })
		defer late.Stop()
		join := filepath.Join(dir, "jumps", "join")
		await(join)
		if worker, log := startedAs(t, jumping, dir, "worker", "--join", join, "--name", "w"); worker.Wait() != nil {
			t.Errorf("worker: %s", log)
			_ = trainer.Process.Kill()
		}
		if err := trainer.Wait(); err != nil {
			t.Fatalf("%v\n%s", err, log)
		}
		sameRun(t, filepath.Join(dir, "right"), filepath.Join(dir, "jumps"))
	})
}

// buildJumping builds the program with a time.Now that jumps.
func buildJumping(t *testing.T) string {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const reads = "sec, nsec, mono := runtimeNow()\n"
	if !strings.Contains(string(text), reads) {
		t.Fatalf("%s has no line %q: this Go reads its clock in another way", file, strings.TrimSpace(reads))
	}
	dir := t.TempDir()
	program, other, overlay := filepath.Join(dir, "darkroom"), filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json")
	words, err := json.Marshal(map[string]any{"Replace": map[string]string{file: other}})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{other: strings.ReplaceAll(string(text), reads, reads+"\tsec += jumped(mono)\n") + jumps, overlay: string(words)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	if out, err := exec.Command("go", "build", "-overlay", overlay, "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("built in %v", time.Since(began).Round(time.Second))
	return program
}

// checkTimes holds timing.jsonl to durations that can be, beside moments that cannot.
func checkTimes(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wrong := 0
	for d := json.NewDecoder(bytes.NewReader(text)); d.More(); {
		var line struct {
			At      float64            `json:"at"`
			Seconds map[string]float64 `json:"seconds"`
		}
		if err := d.Decode(&line); err != nil || len(line.Seconds) == 0 {
			t.Fatal("a line without seconds: ", err)
		}
		if math.Abs(line.At-float64(time.Now().Unix())) > 1800 {
			wrong++
		}
		for name, seconds := range line.Seconds {
			if seconds < 0 || seconds > 3600 {
				t.Errorf("%s took %v s", name, seconds)
			}
		}
	}
	if wrong == 0 {
		t.Error("the clock did not jump: every moment is right")
	}
}
