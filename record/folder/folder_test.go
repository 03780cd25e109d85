package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// open takes a folder, which is made a run's where it is to be gone on with.
func open(t *testing.T, dir string, resume bool) *Folder {
	t.Helper()
	if resume {
		if err := os.WriteFile(filepath.Join(dir, Config), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f, err := Open(dir, resume)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func save(t *testing.T, f *Folder, iteration, keep int) {
	t.Helper()
	if err := f.Save(iteration, Keeping{Last: keep}, func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "state"), fmt.Appendf(nil, "state of %d", iteration), 0o644)
	}); err != nil {
		t.Fatal(err)
	}
}

func TestCheckpoints(t *testing.T) {
	f := open(t, t.TempDir(), false)
	if c, spoilt, err := f.Latest(); c != nil || spoilt != nil || err != nil {
		t.Fatalf("of nothing: %v, %v, %v", c, spoilt, err)
	}
	for i := range 5 {
		save(t, f, i, 3)
	}
	all, err := f.All()
	if err != nil || len(all) != 3 || all[0].Iteration != 2 {
		t.Fatalf("%v, %v", all, err)
	}
	// A checkpoint that is being written, or deleted, does not count.
	for _, name := range []string{"000007.part", "000001.old"} {
		if err := os.Mkdir(filepath.Join(f.checkpoints(), name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	latest := func(want, bad int) {
		t.Helper()
		c, spoilt, err := f.Latest()
		if err != nil || c == nil || c.Iteration != want || len(spoilt) != bad {
			t.Fatalf("%v, %v, %v; want %d after %d spoilt ones", c, spoilt, err, want, bad)
		}
	}
	latest(4, 0)
	// A changed file, a missing one and missing sums: the one before is found.
	if err := os.WriteFile(filepath.Join(all[2].Dir, "state"), []byte("state of 5"), 0o644); err != nil {
		t.Fatal(err)
	}
	latest(3, 1)
	if err := os.Remove(filepath.Join(all[1].Dir, "state")); err != nil {
		t.Fatal(err)
	}
	latest(2, 2)
	if err := os.Remove(filepath.Join(all[0].Dir, sums)); err != nil {
		t.Fatal(err)
	}
	if c, spoilt, err := f.Latest(); c != nil || len(spoilt) != 3 || err != nil {
		t.Fatalf("%v, %v, %v", c, spoilt, err)
	}
	// A failure leaves the earlier checkpoint, and no half-written one.
	save(t, f, 9, 3)
	for _, name := range []string{"000007.part", "000001.old"} {
		if _, err := os.Stat(filepath.Join(f.checkpoints(), name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", name, err)
		}
	}
	if err := f.Save(9, Keeping{Last: 3}, func(string) error { return errors.New("no room") }); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("%v", err)
	}
	latest(9, 0)
}

func TestSumsNameFilesBesideThem(t *testing.T) {
	f := open(t, t.TempDir(), false)
	save(t, f, 1, 3)
	all, _ := f.All()
	for _, text := range []string{"", "x\n", "aa  ../../secret\n"} {
		if err := os.WriteFile(filepath.Join(all[0].Dir, sums), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := all[0].Check(); err == nil {
			t.Errorf("sums of %q pass", text)
		}
	}
}

func TestLines(t *testing.T) {
	f := open(t, t.TempDir(), false)
	l, err := f.AllLines("ledger.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var ends []Mark
	for i := range 3 {
		if err := l.Append(map[string]int{"iteration": i}); err != nil {
			t.Fatal(err)
		}
		end, err := l.End()
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	if err := l.Append(func() {}); err == nil {
		t.Error("a function was written")
	}
	l.Close()
	path := f.Path("ledger.jsonl")
	tear, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	tear.WriteString(`{"iterat`)
	tear.Close()
	count := func() (n int) {
		if err := ReadLines(path, func([]byte) error { n++; return nil }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if count() != 3 {
		t.Errorf("%d lines, not 3", count())
	}
	for _, c := range []struct {
		end  Mark
		left int
	}{{everything, 3}, {ends[1], 2}} {
		l, err := f.Lines("ledger.jsonl", c.end)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if count() != c.left {
			t.Errorf("%d lines, not %d", count(), c.left)
		}
	}
	if _, err := f.Lines("ledger.jsonl", ends[2]); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("a file that lost lines: %v", err)
	}
	if err := ReadLines(path, func([]byte) error { return errors.New("bad") }); err == nil || !strings.Contains(err.Error(), "ledger.jsonl:1: bad") {
		t.Errorf("%v", err)
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, false)
	if _, err := Open(dir, false); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a second process: %v", err)
	}
	if _, err := Open(dir, true); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "without --resume the run begins") {
		t.Errorf("a folder without a run: %v", err)
	}
	if _, err := Open(filepath.Join(dir, "no"), true); !errors.Is(err, ErrNone) {
		t.Errorf("no folder: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "no")); err == nil {
		t.Error("a folder was made that nobody asked for")
	}
	if err := f.Write(Config, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := f.Write("ledger.jsonl", []byte("{}\n")); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := Open(dir, false); !errors.Is(err, ErrUsed) || !strings.Contains(err.Error(), "--resume") {
		t.Errorf("a used folder: %v", err)
	}
	open(t, dir, true)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file, false); err == nil {
		t.Error("a file is taken for a folder")
	}
}

// TestHeld: a checkpoint that is held outlives newer ones, and those after one are forgotten.
func TestHeld(t *testing.T) {
	f := open(t, t.TempDir(), false)
	for i := range 5 {
		if err := f.Save(i, Keeping{Last: 2, Held: []int{1}}, func(dir string) error { return os.WriteFile(filepath.Join(dir, "state"), nil, 0o644) }); err != nil {
			t.Fatal(err)
		}
	}
	numbers := func() (out []int) {
		all, err := f.All()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			out = append(out, c.Iteration)
		}
		return out
	}
	if got := fmt.Sprint(numbers()); got != "[1 3 4]" {
		t.Errorf("%v", got)
	}
	if c, err := f.At(3); err != nil || c.Iteration != 3 {
		t.Errorf("%v, %v", c, err)
	}
	if _, err := f.At(2); err == nil {
		t.Error("a deleted checkpoint is whole")
	}
	if err := f.Forget(1); err != nil || fmt.Sprint(numbers()) != "[1]" {
		t.Errorf("%v, %v", numbers(), err)
	}
}

func TestRoom(t *testing.T) {
	f := open(t, t.TempDir(), false)
	if err := f.Room(1 << 10); err != nil {
		t.Error(err)
	}
	if _, ok := freeBytes(f.Dir); ok {
		if err := f.Room(1 << 61); err == nil || !strings.Contains(err.Error(), "checkpoint.keep") {
			t.Errorf("more room than there is: %v", err)
		}
	} else {
		t.Log("the system does not say what is free")
	}
	gone := &Folder{Dir: filepath.Join(f.Dir, "file", "run")}
	if err := gone.Room(0); err == nil || !strings.Contains(err.Error(), "cannot be written") {
		t.Errorf("%v", err)
	}
}
