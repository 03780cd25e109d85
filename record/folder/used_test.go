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

// TestUsed: a run that failed before it had anything to keep leaves a folder that can be used, and one
// that is to begin anew is kept beside.
func TestUsed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	again := func(worth string) error {
		t.Helper()
		f, err := Open(dir, false)
		if err != nil {
			return err
		}
		for _, name := range []string{Config, "manifest.json", worth} {
			if name != "" {
				if err := f.Write(name, []byte("{}\n")); err != nil {
					t.Fatal(err)
				}
			}
		}
		return f.Close()
	}
	if err := again(""); err != nil {
		t.Fatal(err)
	}
	if err := again("ledger.jsonl"); err != nil {
		t.Errorf("after a run that failed at once: %v", err)
	}
	if err := again(""); !errors.Is(err, ErrUsed) {
		t.Errorf("after an iteration: %v", err)
	}
	for n := 1; n <= 2; n++ {
		to, err := SetAside(dir)
		if err != nil || to != fmt.Sprintf("%s.%d", dir, n) {
			t.Fatalf("%s, %v", to, err)
		}
		if _, err := os.Stat(filepath.Join(to, "ledger.jsonl")); err != nil {
			t.Error(err)
		}
		if err := again("checkpoints/000000/state"); err != nil {
			t.Errorf("beside it: %v", err)
		}
		if err := again("checkpoints/000001/state"); err != nil {
			t.Errorf("after a run that failed in its first iteration: %v", err)
		}
		if _, err := os.Stat(filepath.Join(dir, "checkpoints", "000000")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the checkpoint of a run that failed in its first iteration: %v", err)
		}
		if err := again(""); !errors.Is(err, ErrUsed) {
			t.Errorf("with a checkpoint: %v", err)
		}
		if n == 1 { // for the second round
			if err := os.WriteFile(filepath.Join(dir, "ledger.jsonl"), []byte("{}\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	foreign := filepath.Join(t.TempDir(), "papers")
	if err := os.MkdirAll(filepath.Join(foreign, "images"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.txt", "b.txt", "c.txt", "d.txt", ".hidden"} {
		if err := os.WriteFile(filepath.Join(foreign, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if to, err := SetAside(foreign); to != "" || err != nil { // --restart
		t.Errorf("%s, %v", to, err)
	}
	if _, err := Open(foreign, false); !errors.Is(err, ErrStrange) || !strings.Contains(err.Error(), "a.txt, b.txt, c.txt and 1 more") {
		t.Errorf("a folder with strangers' files: %v", err)
	}
	if to, err := SetAside(filepath.Join(dir, "nothing")); to != "" || err != nil {
		t.Errorf("%s, %v", to, err)
	}
	f := open(t, dir+"-held", false)
	if err := f.Write(Config, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := SetAside(dir + "-held"); err == nil {
		t.Error("a folder was taken from a process at work")
	}
	if _, err := os.Stat(dir + "-held"); errors.Is(err, fs.ErrNotExist) {
		t.Error("it was moved")
	}
}
