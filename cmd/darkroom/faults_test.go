//go:build unix

package main

import (
	"bytes"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFaults: a run that is paused, that may open too few files, or one of whose files has a flipped bit, leaves the
// bytes of one that nothing happened to, or says which file stands in the way. DARKROOM_FAULTS says how many bits are
// flipped, in any file of the folder (make faults); without it two are, in the newest checkpoint and in the ledger.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds; left out by -short")
	}
	dir := experimentOf(t, 2)
	to := func(out string, args ...string) process {
		p := trainIn(dir, "", append(args, "--set", "evaluate.every=1")...) // as often, however many iterations there are
		p.Args[slices.Index(p.Args, "run")] = out
		return p
	}
	one := []string{"--set", "run.iterations=1"}
	for _, args := range [][]string{one, {"--resume"}} {
		if p := to("whole", args...); p.ends(t) != 0 {
			t.Fatal(p.log)
		}
	}
	whole := files(t, filepath.Join(dir, "whole"))
	t.Run("few files", func(t *testing.T) {
		p := trainIn(dir, "ulimit -n 12", one...)
		if code := p.ends(t); code == 0 || !strings.Contains(p.log.String(), "too many open files") || strings.Contains(p.log.String(), "goroutine") {
			t.Fatalf("exit code %d\n%s", code, p.log)
		}
	})
	t.Run("paused", func(t *testing.T) {
		p := to("half", one...)
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		for k := range 3 {
			time.Sleep(time.Duration(50*(k+1)) * time.Millisecond)
			_ = p.Process.Signal(syscall.SIGSTOP) // one that has ended is as good
			time.Sleep(100 * time.Millisecond)
			_ = p.Process.Signal(syscall.SIGCONT)
		}
		if code := p.ended(t, 5*time.Minute); code != 0 {
			t.Fatalf("exit code %d\n%s", code, p.log)
		}
	})
	half := filepath.Join(dir, "half")
	names := []string{"checkpoints/000001/state.safetensors", "ledger.jsonl"}
	if n, err := strconv.Atoi(os.Getenv("DARKROOM_FAULTS")); err == nil {
		names = anyFiles(t, half, n)
	}
	outcomes := map[string]int{}
	for k, name := range names {
		broken := "broken" + strconv.Itoa(k)
		if err := os.CopyFS(filepath.Join(dir, broken), os.DirFS(half)); err != nil {
			t.Fatal(err)
		}
		bit := flip(t, filepath.Join(dir, broken, name))
		p := to(broken, "--resume")
		code := p.ends(t)
		outcome := outcomeOf(code, p.log.String(), name, whole, files(t, filepath.Join(dir, broken)))
		outcomes[outcome]++
		if outcome == "" {
			t.Errorf("bit %d of %s: exit code %d, and other files differ, without a word of it\n%s", bit, name, code, p.log)
		}
		if err := os.RemoveAll(filepath.Join(dir, broken)); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d flipped bits: %v", len(names), outcomes)
	if len(names) == 2 && (outcomes["healed"] != 1 || outcomes["said"] != 1) {
		t.Errorf("a checkpoint is healed by the one before, and a changed ledger said: %v", outcomes)
	}
}

// outcomeOf says what became of a flipped bit in a file; "": other files differ, and nobody was told.
func outcomeOf(code int, log, name string, whole, got map[string][]byte) string {
	named := strings.Contains(log, filepath.Base(name)) || strings.Contains(log, filepath.Base(filepath.Dir(name)))
	if code != 0 {
		if named {
			return "refused"
		}
		return ""
	}
	own := true // whether the file itself is the only one that differs
	for file := range whole {
		own = own && (file == name || bytes.Equal(whole[file], got[file]))
	}
	switch {
	case own && bytes.Equal(whole[name], got[name]):
		return "healed"
	case named:
		return "said"
	case own && strings.HasPrefix(name, "images/"):
		return "stays: training does not read it"
	}
	return ""
}

// anyFiles are n files of a run's folder, drawn by the clock.
func anyFiles(t *testing.T, dir string, n int) (all []string) {
	var there []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || slices.Contains([]string{"lock", "report.html"}, d.Name()) {
			return err
		}
		name, err := filepath.Rel(dir, path)
		there = append(there, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	for range n {
		all = append(all, there[r.IntN(len(there))])
	}
	return all
}

// flip turns one bit of a file around; which one is drawn by the clock.
func flip(t *testing.T, file string) (bit int) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	bit = rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 2)).IntN(8 * len(text))
	text[bit/8] ^= 1 << (bit % 8)
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return bit
}
