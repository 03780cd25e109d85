package main

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/record/folder"
)

var kills = flag.Int("kills", 0, "how often to kill runs, and fleets; 0: runs two or three times")

// TestKilled: a run that is killed at random moments, or interrupted, and goes on each time, leaves the bytes of one
// that was left alone, and computes no iteration again that a checkpoint has. -kills says how often (make kill), of
// clips too; the moments are drawn anew every time, and logged.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds; left out by -short")
	}
	often := map[string]int{"pictures": 3, "episodes": 2}
	iterations := map[string]int{"pictures": 6, "episodes": 3}
	if *kills > 0 {
		for _, kind := range modalities {
			often[kind], iterations[kind] = *kills, *kills+10
		}
	} else {
		t.Log("clips are left out without -kills (make kill)")
	}
	for _, kind := range modalities {
		if n := often[kind]; n > 0 {
			t.Run(kind, func(t *testing.T) { killAndGoOn(t, experimentOf(t, kind, iterations[kind]), n) })
		}
	}
}

// killAndGoOn kills a run so often: every third time by SIGTERM, which it may answer by saving.
func killAndGoOn(t *testing.T, dir string, kills int) {
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
	parts := filepath.Join(dir, "parts", "run")
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	count := map[string]int{}
	for k := range kills {
		cmd, log := train("parts/run", goingOn(parts)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		after := time.Duration(r.Float64() * float64(whole) * 1.5 / float64(kills))
		time.Sleep(after)
		if k%3 != 2 || cmd.Process.Signal(syscall.SIGTERM) != nil { // Windows has no such signal
			_ = cmd.Process.Kill() // one that has ended is as good
		}
		err := cmd.Wait()
		var exit *exec.ExitError
		switch {
		case err == nil:
			count["ended before"]++
		case errors.As(err, &exit) && exit.ExitCode() == -1:
			count["killed"]++
		case errors.As(err, &exit) && exit.ExitCode() == exits.Interrupted:
			count["saved, and ended"]++
		default:
			t.Fatalf("attempt %d after %v: %v\n%s", k, after, err, log)
		}
		lost := lostIterations(t, parts)
		if count["iterations lost"] += lost; lost > 1 { // of which every one has a checkpoint
			t.Errorf("attempt %d after %v: %d iterations were lost", k, after, lost)
		}
	}
	if cmd, log := train("parts/run", goingOn(parts)...); cmd.Run() != nil {
		t.Fatal(log)
	}
	a, b := files(t, filepath.Join(dir, "whole", "run")), files(t, parts)
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
	t.Logf("%d attempts over %v: %v", kills, whole, count)
}

// lostIterations is how many a run's ledger has, and no checkpoint: they are computed again.
func lostIterations(t *testing.T, run string) int {
	text, _ := os.ReadFile(filepath.Join(run, "ledger.jsonl")) // none yet
	saved, err := filepath.Glob(filepath.Join(run, "checkpoints", "*", "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	newest := 0
	for _, sums := range saved {
		if n, err := strconv.Atoi(filepath.Base(filepath.Dir(sums))); err == nil { // half of one has another name
			newest = max(newest, n)
		}
	}
	return strings.Count(string(text), "\n") - newest
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
