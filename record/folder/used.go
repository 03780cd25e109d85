package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A new run finds in its folder nothing, the traces of a run that failed early, or a run.

// records are the files that are not empty once an iteration has finished; a checkpoint precedes it.
var records = []string{"ledger.jsonl", "samples.jsonl"}

// rates and heldOut are measured before the first iteration, which may take long.
const (
	rates   = "pass_rates.jsonl"
	heldOut = "heldout.jsonl"
)

// traces are the files of a run before its first iteration.
var traces = []string{"checkpoints", "manifest.json", "products.json", "result.json", "report.html", "images", "transcripts.jsonl", heldOut, "fleet.jsonl", Config} // the one that makes it a run last

// early are other files that may exist before Config: locks, and the files of a fleet's server.
var early = []string{"lock", "timing.jsonl", "diagnosis.json", "join", "broker.json", "broker.tmp"}

// ErrStrange says that a folder holds files that no run wrote.
var ErrStrange = errors.New("it holds files that are no run's")

// strangers refuses files that no run wrote, in a folder that none has begun in. Those whose names begin with a dot are
// a desktop's.
func strangers(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, Config)); err == nil {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // there is no folder yet, or its maker reports why it cannot exist
	}
	var names []string
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), part)
		if !strings.HasPrefix(name, ".") && name != rates && !slices.Contains(slices.Concat(traces, records, early), name) {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return nil
	}
	list := strings.Join(names[:min(3, len(names))], ", ")
	if n := len(names) - 3; n > 0 {
		list += fmt.Sprintf(" and %d more", n)
	}
	return fmt.Errorf("%s: %w: %s\nhint: --out names a folder that is new or empty; a run would write among these", dir, ErrStrange, list)
}

// begin makes the folder fit for a new run.
func (f *Folder) begin() error {
	switch _, err := os.Stat(f.Path(Config)); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	worth, err := f.Worth()
	if err != nil {
		return err
	}
	if worth {
		return fmt.Errorf("%s: %w\nhint: --resume goes on with it, --restart begins anew and keeps it beside, --out names another folder", f.Dir, ErrUsed)
	}
	for _, name := range traces {
		if err := os.RemoveAll(f.Path(name)); err != nil {
			return fmt.Errorf("clearing what is left of a run that failed at once: %w", err)
		}
	}
	return nil
}

// Worth reports whether the folder holds anything that a run would lose: a checkpoint, whole or not, a line of a
// record, measured pass rates, or held-out samples of the start. The checkpoint of iteration 0 has nothing beyond
// these.
func (f *Folder) Worth() (bool, error) {
	all, err := f.All()
	if err != nil || slices.ContainsFunc(all, func(c Checkpoint) bool { return c.Iteration > 0 }) {
		return true, err
	}
	return f.lined(append([]string{rates, heldOut}, records...)...)
}

// Lined reports whether any iteration has lines.
func (f *Folder) Lined() (bool, error) { return f.lined(records...) }

func (f *Folder) lined(names ...string) (bool, error) {
	for _, name := range names {
		info, err := os.Stat(f.Path(name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return false, err
		case info.Size() > 0:
			return true, nil
		}
	}
	return false, nil
}

// mostAside limits the earlier runs beside a folder.
const mostAside = 1000

// SetAside renames a folder that holds a run, so that a new one can begin in its place, and returns its new name: ""
// without a run.
func SetAside(dir string) (to string, err error) {
	dir = filepath.Clean(dir)
	if _, err := os.Stat(filepath.Join(dir, Config)); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	f := &Folder{Dir: dir}
	if err := f.hold(); err != nil { // nobody is at work there
		return "", err
	}
	defer f.lock.Close() // that nobody is at work there is all that was asked
	for n := 1; n <= mostAside; n++ {
		to = fmt.Sprintf("%s.%d", dir, n)
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			if err = os.Rename(dir, to); err != nil { // Windows renames no folder with an open file in it
				err = errors.Join(f.lock.Close(), os.Rename(dir, to))
			}
			return to, err
		}
	}
	return "", fmt.Errorf("%s.1 to %s.%d are there already\nhint: delete or move some of them", dir, dir, mostAside)
}
