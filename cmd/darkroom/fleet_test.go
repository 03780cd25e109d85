package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// started starts the program.
func started(t *testing.T, dir string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	return startedAs(t, os.Args[0], dir, args...)
}

// startedAs starts a program that is this one, or a build of it.
func startedAs(t *testing.T, program, dir string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Args, cmd.Dir = append([]string{"darkroom"}, args...), dir // by this name the test binary is the program
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, &log
}

// await waits for a file that a trainer is to write, for a minute, and reports whether it is there.
func await(file string) bool {
	for range 600 {
		if _, err := os.Stat(file); err == nil {
			return true
		}
		time.Sleep(100 * time.Millisecond)
	}
	return false
}

// TestFleetKilled: trainer and workers are killed at random moments, the trainer is resumed and workers begin anew,
// and the run leaves the bytes of one process, with samples of earlier weights as without. -kills says how often
// (make fleet).
func TestFleetKilled(t *testing.T) {
	if *kills == 0 {
		t.Skip("takes minutes; left out without -kills (make fleet)")
	}
	for _, lag := range []string{"0", "2"} {
		t.Run("lag "+lag, func(t *testing.T) { killFleet(t, *kills, "--set", "run.lag="+lag) })
	}
}

// killFleet kills so often, in a run with more arguments.
func killFleet(t *testing.T, kills int, more ...string) {
	dir := t.TempDir()
	iterations := 12 + kills/2 // so that the run does not end before
	prepare(t, dir, "pictures", iterations)
	began := time.Now()
	if cmd, log := started(t, dir, append([]string{"train", "killed.toml", "--out", "whole/run"}, more...)...); cmd.Wait() != nil {
		t.Fatal(log)
	}
	whole := time.Since(began)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	train := func() (*exec.Cmd, *bytes.Buffer) {
		args := append([]string{"train", "killed.toml", "--out", "parts/run", "--listen", at, "--leave-rolls"}, more...)
		return started(t, dir, append(args, goingOn(filepath.Join(dir, "parts", "run"))...)...)
	}
	trainer, log := train()
	join := filepath.Join(dir, "parts", "run", "join")
	await(join)
	worker := func(n int) *exec.Cmd {
		cmd, _ := started(t, dir, "worker", "--join", join, "--name", fmt.Sprint("w", n))
		return cmd
	}
	workers := []*exec.Cmd{worker(0), worker(1)}
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	done, ran, trainers := 0, 0, 0
	for k := range kills {
		time.Sleep(time.Duration(r.Float64() * 4 * float64(whole) / float64(iterations)))
		ran++
		if victim := r.IntN(3); victim < 2 {
			_ = workers[victim].Process.Kill()
			_ = workers[victim].Wait()
			workers[victim] = worker(2 + k)
			continue
		}
		_ = trainer.Process.Kill()
		err := trainer.Wait()
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != -1) {
			t.Fatalf("kill %d: %v\n%s", k, err, log)
		}
		if err == nil {
			done, ran = k, ran-1 // it had ended by itself
			break
		}
		trainers++
		trainer, log = train()
	}
	if done == 0 {
		if err := trainer.Wait(); err != nil {
			t.Fatalf("%v\n%s", err, log)
		}
	}
	for _, w := range workers {
		_ = w.Process.Kill()
		_ = w.Wait()
	}
	sameRun(t, filepath.Join(dir, "whole", "run"), filepath.Join(dir, "parts", "run"))
	t.Logf("%d of %d kills before the run's end, %d of them of the trainer; alone it takes %v", ran, kills, trainers, whole)
}

// TestFleetProcesses: workers that are processes of their own, one of which is killed under way, roll a run whose
// bytes are those of one process; they end with it.
func TestFleetProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds; left out by -short")
	}
	dir := t.TempDir()
	prepare(t, dir, "pictures", 3)
	traced := collect(t)
	start := func(args ...string) (*exec.Cmd, *bytes.Buffer) { return started(t, dir, args...) }
	if cmd, log := start("train", "killed.toml", "--out", "alone"); cmd.Wait() != nil {
		t.Fatal(log)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", traced.URL)
	trainer, log := start("train", "killed.toml", "--out", "helped", "--listen", "127.0.0.1:0", "--leave-rolls", "--audit", "0.5")
	late := time.AfterFunc(3*time.Minute, func() { _ = trainer.Process.Kill() })
	join := filepath.Join(dir, "helped", "join")
	await(join)
	victim, _ := start("worker", "--join", join, "--name", "victim")
	steady, said := start("worker", "--join", join, "--name", "steady")
	for range 600 { // until it has done something
		if text, err := os.ReadFile(filepath.Join(dir, "helped", ledger.FleetFile)); err == nil && len(text) > 0 {
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
	traced.holds(t, 3, "steady")
	table := exec.Command(os.Args[0])
	table.Args, table.Dir = []string{"darkroom", "fleet", "helped"}, dir
	if out, err := table.Output(); err != nil || !strings.Contains(string(out), "steady") || !strings.Contains(string(out), "SECONDS A JOB") {
		t.Errorf("%v\n%s", err, out)
	}
	if t.Failed() {
		t.Logf("the trainer:\n%s\nthe worker:\n%s", log, said)
	}
}

// sameRun holds a run that workers helped to one that was left alone, but for the files of the help itself.
func sameRun(t *testing.T, alone, helped string) {
	t.Helper()
	a, b := files(t, alone), files(t, helped)
	for _, own := range []string{"join", "broker.json", ledger.FleetFile} {
		delete(b, own)
	}
	for name := range a {
		if !bytes.Equal(a[name], b[name]) {
			t.Errorf("%s differs from that of the run which was left alone", name)
		}
	}
	if len(a) != len(b) {
		t.Errorf("%d files, and %d of the run which was left alone", len(b), len(a))
	}
}
