package run

import (
	"errors"
	"maps"
	"sync"

	"github.com/darkroom-rl/darkroom/trainer/folder"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
)

// files are the run's folder, and what is appended to in it.
type files struct {
	folder                  *folder.Folder
	ledger, samples, timing *folder.Lines
	heldOut                 *folder.Lines
	further                 map[string]*folder.Lines // those that the model appends to
	newest                  int                      // the iteration of the newest checkpoint, -1 for none
	fleet                   *folder.Lines            // who did which job; nil: nobody helped yet
	jobs                    sync.Mutex               // of fleet: rolls and scores are written beside each other
	heldOutSum              string                   // of the prompts that the manifest says
	kernels                 []byte                   // the backend's choices, as they are in the folder
}

// openLines opens the files that are appended to, cut back to where a checkpoint saw them end.
func (t *training) openLines(ends map[string]folder.Mark) (err error) {
	f := &t.files
	lines := func(name string) *folder.Lines {
		if err != nil {
			return nil
		}
		var l *folder.Lines
		if l, err = f.folder.Lines(name, ends[name]); err == nil && l.Changed() != nil {
			t.Say("warning: %v; training goes on, but the curves and the page may be wrong there", l.Changed())
		}
		return l
	}
	f.ledger, f.samples, f.further = lines("ledger.jsonl"), lines("samples.jsonl"), map[string]*folder.Lines{}
	f.heldOut = lines(ledger.HeldOutFile)
	for _, name := range t.model.Files() {
		f.further[name] = lines(name)
	}
	if err != nil {
		return err
	}
	f.timing, err = f.folder.AllLines("timing.jsonl")
	return err
}

// lines are the files that a checkpoint cuts back.
func (f *files) lines() map[string]*folder.Lines {
	all := map[string]*folder.Lines{"ledger.jsonl": f.ledger, "samples.jsonl": f.samples, ledger.HeldOutFile: f.heldOut}
	maps.Copy(all, f.further)
	return all
}

func (f *files) closeLines() error {
	all := f.lines()
	all["timing.jsonl"] = f.timing
	all[ledger.FleetFile] = f.fleet
	var errs []error
	for _, l := range all {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	return errors.Join(errs...)
}
