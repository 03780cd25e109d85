package folder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// killed is how a test's process ends.
type killed struct{ step string }

// saveUntil saves the checkpoint of an iteration, and is killed before step n; it reports whether it was,
// and which step that is.
func saveUntil(f *Folder, iteration, n int, text string) (step string, dead bool) {
	defer func() {
		if k, ok := recover().(killed); ok {
			step, dead = k.step, true
		}
	}()
	f.before = func(step string) {
		if n--; n < 0 {
			panic(killed{step})
		}
	}
	if err := f.Save(iteration, Keeping{Last: 1}, func(dir string) error {
		f.step("inside fill")
		return os.WriteFile(filepath.Join(dir, "state"), []byte(text), 0o644)
	}); err != nil {
		panic(err)
	}
	return "", false
}

// TestKilledInSave: a checkpoint is written anew, as after a rollback, or another one after it, and the
// process is killed before every step, or in the middle of one that deletes. The checkpoint before or the
// one after is found whole, and the next Save leaves nothing else.
func TestKilledInSave(t *testing.T) {
	for _, next := range []int{3, 4} { // the same iteration, and a later one
		for n, dead := 0, true; dead; n++ {
			for _, half := range []bool{false, true} {
				dir := t.TempDir()
				f := open(t, dir, false)
				if _, dead := saveUntil(f, 3, 1000, "old"); dead {
					t.Fatal("killed too early")
				}
				var step string
				if step, dead = saveUntil(f, next, n, "new"); !dead {
					break
				}
				f.Close()
				what := fmt.Sprintf("saving %d after 3, killed before %q, half deleted: %v", next, step, half)
				if half && !halfDelete(t, dir, step) {
					continue
				}
				f = open(t, dir, true)
				c, spoilt, err := f.Latest()
				if err != nil || c == nil || len(spoilt) != 0 {
					t.Fatalf("%s: %v, %v, %v", what, c, spoilt, err)
				}
				text, err := os.ReadFile(filepath.Join(c.Dir, "state"))
				if err != nil || string(text) != "old" && string(text) != "new" || string(text) == "old" && c.Iteration != 3 || string(text) == "new" && c.Iteration != next {
					t.Errorf("%s: iteration %d is %q, %v", what, c.Iteration, text, err)
				}
				f.before = nil
				save(t, f, next, 1)
				entries, err := os.ReadDir(f.checkpoints())
				if err != nil || len(entries) != 1 {
					t.Errorf("%s: afterwards there is %v, %v", what, entries, err)
				}
				f.Close()
			}
		}
	}
}

// halfDelete deletes one file of the folder that a step is about to delete, if any.
func halfDelete(t *testing.T, dir, step string) bool {
	t.Helper()
	pattern, ok := map[string]string{"delete the one aside": "*" + aside, "tidy": "*" + gone}[step]
	if !ok {
		return false
	}
	all, err := filepath.Glob(filepath.Join(dir, "checkpoints", pattern, "state"))
	if err != nil || len(all) == 0 {
		return false
	}
	if err := os.Remove(all[0]); err != nil {
		t.Fatal(err)
	}
	return true
}

// TestSaveFails: the earlier checkpoint stays.
func TestSaveFails(t *testing.T) {
	f := open(t, t.TempDir(), false)
	save(t, f, 3, 1)
	if err := f.Save(3, Keeping{Last: 1}, func(string) error { return errors.New("no room") }); err == nil {
		t.Fatal("it was saved")
	}
	if c, _, err := f.Latest(); err != nil || c == nil || c.Iteration != 3 {
		t.Errorf("%v, %v", c, err)
	}
}

// TestEveryFileHasASum: a file whose line SHA256SUMS lost is not taken for checked.
func TestEveryFileHasASum(t *testing.T) {
	f := open(t, t.TempDir(), false)
	if err := f.Save(1, Keeping{Last: 1}, func(dir string) error {
		return errors.Join(os.WriteFile(filepath.Join(dir, "a"), nil, 0o644), os.WriteFile(filepath.Join(dir, "b"), nil, 0o644))
	}); err != nil {
		t.Fatal(err)
	}
	all, err := f.All()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(all[0].Dir, ".DS_Store"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := all[0].Check(); err != nil {
		t.Errorf("a desktop's own file: %v", err)
	}
	path := filepath.Join(all[0].Dir, sums)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text[:len(text)/2], 0o644); err != nil { // a's line, and not b's
		t.Fatal(err)
	}
	if err := all[0].Check(); err == nil {
		t.Error("b is not checked, and the checkpoint passes")
	}
}

// TestGone: a folder that was moved, deleted or taken is an error at the next line, file or checkpoint.
func TestGone(t *testing.T) {
	for name, act := range map[string]func(dir string) error{
		"moved":   func(dir string) error { return os.Rename(dir, dir+"-moved") },
		"deleted": os.RemoveAll,
		"another": func(dir string) error { return errors.Join(os.Rename(dir, dir+"-moved"), os.Mkdir(dir, 0o755)) },
	} {
		dir := filepath.Join(t.TempDir(), "run")
		f := open(t, dir, false)
		l, err := f.AllLines("ledger.jsonl")
		if err != nil {
			t.Fatal(err)
		}
		if err := act(dir); err != nil {
			t.Skipf("the system does not let go of a folder in use: %v", err) // Windows
		}
		if err := l.Append(1); !errors.Is(err, ErrGone) {
			t.Errorf("%s: a line: %v", name, err)
		}
		if err := f.Write("a", nil); !errors.Is(err, ErrGone) {
			t.Errorf("%s: a file: %v", name, err)
		}
		if err := f.Save(1, Keeping{Last: 1}, func(string) error { return nil }); !errors.Is(err, ErrGone) {
			t.Errorf("%s: a checkpoint: %v", name, err)
		}
		l.Close()
	}
	dir := t.TempDir()
	f := open(t, dir, false)
	if err := os.Remove(f.Path("lock")); err != nil {
		t.Skipf("the system does not let go of a file in use: %v", err)
	}
	if err := f.Here(); err != nil {
		t.Errorf("without the lock's name the folder is still this process's: %v", err)
	}
	open(t, dir, false)
	if err := f.Here(); err == nil {
		t.Error("two processes have the folder")
	}
}

// TestLinks: the target of a link in a stranger's folder is neither read nor written.
func TestLinks(t *testing.T) {
	for _, name := range []string{"ledger.jsonl", "report.html.part", "images/a.png", "checkpoints", "checkpoints/000001", "checkpoints/000001/state.json"} {
		dir, secret := t.TempDir(), t.TempDir()
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(secret, path); err != nil {
			t.Skipf("links cannot be made here: %v", err)
		}
		if err := Own(dir); err == nil {
			t.Errorf("%s: a link passes", name)
		}
		if f, err := Open(dir, false); err == nil {
			f.Close()
			t.Errorf("%s: the folder was opened", name)
		}
	}
	dir := t.TempDir()
	victim := filepath.Join(t.TempDir(), "victim")
	if err := errors.Join(os.WriteFile(victim, []byte("dear"), 0o644), os.Symlink(victim, filepath.Join(dir, "report.html.part"))); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(filepath.Join(dir, "report.html"), []byte("page")); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "dear" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestBeforeTheFirst: pass rates and the conversations of a first evaluation come before any checkpoint: they do not
// count as iterations, and only the rates, which took long, keep a new run out.
func TestBeforeTheFirst(t *testing.T) {
	for name, worth := range map[string]bool{rates: true, "transcripts.jsonl": false, "ledger.jsonl": true} {
		f := open(t, t.TempDir(), false)
		if err := f.Write(name, []byte("{}\n")); err != nil {
			t.Fatal(err)
		}
		if got, err := f.Worth(); err != nil || got != worth {
			t.Errorf("%s: worth keeping %v, %v", name, got, err)
		}
		if got, err := f.Lined(); err != nil || got != (name == "ledger.jsonl") {
			t.Errorf("%s: of an iteration %v, %v", name, got, err)
		}
	}
}

// TestChanged: a change before a mark is reported, with the line that can no longer be read.
func TestChanged(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir, false)
	l, err := f.AllLines("ledger.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := l.Append(map[string]int{"iteration": i}); err != nil {
			t.Fatal(err)
		}
	}
	mark, err := l.End()
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	text, err := os.ReadFile(f.Path("ledger.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at   int
		b    byte
		says string // "": nothing has changed
	}{
		{0, '{', ""},
		{len(text)/3 - 3, '7', "the content of some has changed"},
		{len(text) / 3, '[', "line 2 is no longer JSON"},
	} {
		next := append([]byte(nil), text...)
		next[c.at] = c.b
		if err := os.WriteFile(f.Path("ledger.jsonl"), next, 0o644); err != nil {
			t.Fatal(err)
		}
		l, err := f.Lines("ledger.jsonl", mark)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(l.Changed()); c.says == "" && l.Changed() != nil || c.says != "" && !strings.Contains(got, c.says) {
			t.Errorf("byte %d is %q: %s", c.at, c.b, got)
		}
		l.Close()
	}
	if _, err := f.Lines("ledger.jsonl", Mark{End: mark.End - 4}); err == nil || !strings.Contains(err.Error(), "inside a line") {
		t.Errorf("another run's mark: %v", err)
	}
}
