package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/trainer/run"
)

// TestFleetProcesses: workers that are processes of their own, one of which is killed under way, roll a run whose
// bytes are those of one process; they end with it.
func TestFleetProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds; left out by -short")
	}
	dir := t.TempDir()
	for name, data := range map[string]string{"killed.toml": strings.ReplaceAll(killed, "ITERATIONS", "3"), "p.txt": "a red circle on white\n", "scenes.txt": fewScenes} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	start := func(args ...string) (*exec.Cmd, *bytes.Buffer) {
		cmd := exec.Command(os.Args[0])
		cmd.Args, cmd.Dir = append([]string{"darkroom"}, args...), dir // by this name the test binary is the program
		var log bytes.Buffer
		cmd.Stderr = &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, &log
	}
	if cmd, log := start("train", "killed.toml", "--out", "alone"); cmd.Wait() != nil {
		t.Fatal(log)
	}
	trainer, log := start("train", "killed.toml", "--out", "helped", "--listen", "127.0.0.1:0", "--leave-rolls", "--audit", "0.5")
	late := time.AfterFunc(3*time.Minute, func() { _ = trainer.Process.Kill() })
	join := filepath.Join(dir, "helped", "join")
	for range 600 {
		if _, err := os.Stat(join); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	victim, _ := start("worker", "--join", join, "--name", "victim")
	steady, said := start("worker", "--join", join, "--name", "steady")
	for range 600 { // until it has done something
		if text, err := os.ReadFile(filepath.Join(dir, "helped", run.FleetFile)); err == nil && len(text) > 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	_ = victim.Process.Kill()
	_ = victim.Wait()
	if err := trainer.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	late.Stop()
	if err := steady.Wait(); err != nil {
		t.Errorf("the worker: %v\n%s", err, said)
	}
	for _, name := range []string{"ledger.jsonl", "samples.jsonl", "heldout.jsonl", "checkpoints/000003/state.safetensors", "checkpoints/000003/adapter_model.safetensors", "checkpoints/000003/state.json", "images/000003_best.png"} {
		a, err := os.ReadFile(filepath.Join(dir, "alone", name))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "helped", name)); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs: %v", name, err)
		}
	}
	table := exec.Command(os.Args[0])
	table.Args, table.Dir = []string{"darkroom", "fleet", "helped"}, dir
	if out, err := table.Output(); err != nil || !strings.Contains(string(out), "steady") || !strings.Contains(string(out), "SECONDS A JOB") {
		t.Errorf("%v\n%s", err, out)
	}
	if t.Failed() {
		t.Logf("the trainer:\n%s\nthe worker:\n%s", log, said)
	}
}
