package track

import (
	"fmt"
	"slices"
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
	open func(dir string, run *Run, s state) (Target, error)
	// again: the whole run is read anew, and the file is written whole.
	again bool
}

func layouts() []layout {
	return []layout{
		{name: "tensorboard", open: openTensorBoard},
		{name: "trackio", open: openTrackio},
		{name: "wandb", open: openWandB},
		{name: "csv", open: openCSV, again: true},
	}
}

// Layouts are the names of what a run can be exported as.
func Layouts() []string {
	var names []string
	for _, l := range layouts() {
		names = append(names, l.name)
	}
	return names
}

// Known reports whether a run can be exported as a layout.
func Known(as string) bool { return slices.Contains(Layouts(), as) || strings.HasPrefix(as, "mlflow=") }

// layoutOf finds a layout.
func layoutOf(name string) (layout, error) {
	for _, l := range layouts() {
		if l.name == name {
			return l, nil
		}
	}
	return layout{}, fmt.Errorf("a run is exported as %s, not as %q", strings.Join(Layouts(), ", "), name)
}
