package track

import (
	"fmt"
	"strings"
)

// A Target is where entries go. What is appended counts once it is committed: an export that is killed before
// goes on from the last commit, and what was written since is written over.
type Target interface {
	Append(e *Entry) error
	// Commit makes what was appended last, together with the mark of how far the run was read.
	Commit(m Mark) error
	// Finish ends the export of a run that has ended. It is no part of the mark: if the run goes on,
	// so does its export.
	Finish(status string) error
	Close() error
}

// A Mark is how far a run was read into a target.
type Mark struct {
	Entries int     `json:"entries"`
	End     int64   `json:"ledger_end"`
	SHA256  string  `json:"ledger_sha256,omitempty"` // of what stands before End
	Time    float64 `json:"time"`                    // of the last entry
}

// A layout is a kind of target.
type layout struct {
	name string
	// open opens a target at a place, a folder or an address, where the state says how far it is.
	open func(where string, run *Run, s state) (Target, error)
	// again: the whole run is read anew, and the file is written whole.
	again bool
	// find is how far a target that is no folder is; nil: stateFile says it.
	find func(where string, run *Run) (*state, error)
}

func layouts() []layout {
	return []layout{
		{name: "tensorboard", open: openTensorBoard},
		{name: "trackio", open: openTrackio},
		{name: "wandb", open: openWandB},
		{name: "csv", open: openCSV, again: true},
		{name: "parquet", open: openParquet, again: true},
		{name: "mlflow", open: openMLflow, find: findMLflow},
	}
}

// Layouts are the names of what a run can be exported as. An address follows the name of one that is a server's.
func Layouts() []string {
	var names []string
	for _, l := range layouts() {
		if l.find != nil {
			l.name += "=URL"
		}
		names = append(names, l.name)
	}
	return names
}

// Known reports whether a run can be exported as a layout.
func Known(as string) bool {
	_, _, err := layoutOf(as)
	return err == nil
}

// layoutOf finds a layout, and the address behind its name.
func layoutOf(as string) (l layout, address string, err error) {
	name, address, given := strings.Cut(as, "=")
	for _, l := range layouts() {
		if l.name == name && given == (l.find != nil) {
			return l, address, nil
		}
	}
	return layout{}, "", fmt.Errorf("a run is exported as %s, not as %q", strings.Join(Layouts(), ", "), as)
}
