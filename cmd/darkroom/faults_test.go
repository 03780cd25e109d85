//go:build unix

package main

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var flips = flag.Int("flips", 0, "how many bits of a run's files to flip; 0: two")

// TestFaults: a run that is paused, that may open too few files or take too little memory, or one of whose files has a
// flipped bit or a torn end, leaves the bytes of one that nothing happened to, or says which file stands in the way.
// -flips says how many bits are flipped, in all files of the folder in turn, and does the same to episodes and
// clips (make faults); without it two are, in the newest checkpoint and in the ledger of a run of pictures.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds; left out by -short")
	}
	if *flips == 0 {
		t.Log("two flipped bits of pictures, and no more without -flips (make faults)")
		newBreakage(t, "pictures").all(t, nil)
		return
	}
	for _, kind := range modalities {
		t.Run(kind, func(t *testing.T) {
			b := newBreakage(t, kind)
			b.all(t, b.filesInTurn(t, *flips))
		})
	}
}

// A breakage is a run of two iterations that nothing happens to, and the folder in which others are broken.
type breakage struct {
	dir   string
	whole map[string][]byte
}

// oneIteration is the first of a breakage's.
var oneIteration = []string{"--set", "run.iterations=1"}

func newBreakage(t *testing.T, kind string) *breakage {
	b := &breakage{dir: experimentOf(t, kind, 2)}
	for _, args := range [][]string{oneIteration, {"--resume"}} {
		if p := b.to("whole", "", args...); p.ends(t) != 0 {
			t.Fatal(p.log)
		}
	}
	b.whole = files(t, filepath.Join(b.dir, "whole"))
	return b
}

// to trains into a folder, below a shell's limits.
func (b *breakage) to(out, limits string, args ...string) process {
	p := trainIn(b.dir, limits, append(args, "--set", "evaluate.every=1")...) // as often, however many iterations there are
	p.Args[slices.Index(p.Args, "run")] = out
	return p
}

// all does everything; names are the files whose bits are flipped.
func (b *breakage) all(t *testing.T, names []string) {
	t.Run("few files", func(t *testing.T) {
		p := b.to("few", "ulimit -n 12", oneIteration...)
		if code := p.ends(t); code == 0 || !strings.Contains(p.log.String(), "too many open files") || strings.Contains(p.log.String(), "goroutine") {
			t.Fatalf("exit code %d\n%s", code, p.log)
		}
	})
	t.Run("paused", func(t *testing.T) {
		p := b.to("half", "", oneIteration...)
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
	if names == nil {
		outcomes := b.damage(t, []string{"checkpoints/000001/state.safetensors", "ledger.jsonl"}, flip)
		// The ledger's bit is drawn: a number that changes is said, a line that is not JSON any more is refused.
		if outcomes["healed"] != 1 || outcomes["said"]+outcomes["refused"] != 1 {
			t.Errorf("a checkpoint is healed by the one before, and a changed ledger said or refused: %v", outcomes)
		}
		return
	}
	t.Run("little memory", b.starved)
	t.Run("flipped bits", func(t *testing.T) { b.damage(t, names, flip) })
	t.Run("torn ends", func(t *testing.T) {
		lines := []string{"ledger.jsonl", "samples.jsonl", "heldout.jsonl", "timing.jsonl"}
		b.damage(t, slices.Concat(lines, lines, lines), tear)
	})
}

// starved gives a run more memory each time that it has died of too little; Go's runtime says so then. With enough it
// has the bytes of one that always had enough.
func (b *breakage) starved(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("ulimit -d limits what a program may write to on Linux alone")
	}
	count := map[string]int{}
	for mib := 80; mib <= 400; mib += 20 {
		p := b.to("starved", fmt.Sprintf("ulimit -d %d", mib<<10), goingOn(filepath.Join(b.dir, "starved"))...)
		switch code, log := p.ends(t), p.log.String(); {
		case code == 0:
			count["enough"]++
		case strings.Contains(log, "cannot allocate memory"), strings.Contains(log, "out of memory"), strings.Contains(log, "pthread_create failed"):
			count["died"]++
		default:
			t.Errorf("%d MiB: exit code %d\n%s", mib, code, log)
		}
	}
	t.Logf("from 80 to 400 MiB: %v", count)
	if count["died"] == 0 || count["enough"] == 0 {
		t.Error("no limit was too small, or none was enough")
	}
	b.same(t, "starved")
}

// same holds a folder to the whole run.
func (b *breakage) same(t *testing.T, out string) {
	t.Helper()
	got := files(t, filepath.Join(b.dir, out))
	for name := range b.whole {
		if !bytes.Equal(b.whole[name], got[name]) {
			t.Errorf("%s differs from that of the run that nothing happened to", name)
		}
	}
}

// damage breaks one file of the half run at a time, and goes on with it.
func (b *breakage) damage(t *testing.T, names []string, how func(*testing.T, string) string) map[string]int {
	outcomes := map[string]int{}
	for k, name := range names {
		broken := "broken" + strconv.Itoa(k)
		if err := os.CopyFS(filepath.Join(b.dir, broken), os.DirFS(filepath.Join(b.dir, "half"))); err != nil {
			t.Fatal(err)
		}
		did := how(t, filepath.Join(b.dir, broken, name))
		p := b.to(broken, "", "--resume")
		code := p.ends(t)
		outcome := outcomeOf(code, p.log.String(), name, b.whole, files(t, filepath.Join(b.dir, broken)))
		outcomes[outcome]++
		if outcome == "" {
			t.Errorf("%s, %s: exit code %d, and other files differ, without a word of it\n%s", name, did, code, p.log)
		}
		if err := os.RemoveAll(filepath.Join(b.dir, broken)); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d times: %v", len(names), outcomes)
	return outcomes
}

// outcomeOf is the effect of a flipped bit in a file; "": other files differ, without a report.
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

// filesInTurn are n files of the half run's folder: all of them in a drawn order,
// again and again. The run is done for it.
func (b *breakage) filesInTurn(t *testing.T, n int) (all []string) {
	if p := b.to("half", "", oneIteration...); p.ends(t) != 0 {
		t.Fatal(p.log)
	}
	dir := filepath.Join(b.dir, "half")
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
	if err := os.RemoveAll(dir); err != nil { // the pauses make it anew
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	for k := range n {
		if k%len(there) == 0 {
			r.Shuffle(len(there), func(i, j int) { there[i], there[j] = there[j], there[i] })
		}
		all = append(all, there[k%len(there)])
	}
	t.Logf("%d files", len(there))
	return all
}

// flip turns one bit of a file around; which one is drawn by the clock.
func flip(t *testing.T, file string) string {
	t.Helper()
	var bit int
	change(t, file, func(text []byte) []byte {
		bit = rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 2)).IntN(8 * len(text))
		text[bit/8] ^= 1 << (bit % 8)
		return text
	})
	return "bit " + strconv.Itoa(bit)
}

// tear cuts up to 300 bytes off a file's end; how many is drawn by the clock.
func tear(t *testing.T, file string) string {
	t.Helper()
	var cut int
	change(t, file, func(text []byte) []byte {
		cut = 1 + rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 3)).IntN(min(300, len(text)-1))
		return text[:len(text)-cut]
	})
	return "the last " + strconv.Itoa(cut) + " bytes"
}

// change rewrites a file.
func change(t *testing.T, file string, how func([]byte) []byte) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, how(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
