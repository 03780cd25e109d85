package track

import (
	"fmt"
	"strings"
)

// A Target receives entries. An appended entry counts once it is committed: an export that is killed before goes on
// from the last commit, and writes over later entries.
type Target interface {
	Append(e *Entry) error
	// Commit makes appended entries permanent, together with the mark of the run's position.
	Commit(m Mark) error
	// Finish ends the export of a run that has ended. It is not part of the mark: if the run goes on,
	// so does its export.
	Finish(status string) error
	Close() error
}

// A Mark is how far a run was read into a target.
type Mark struct {
	Entries int     `json:"entries"`
	End     int64   `json:"ledger_end"`
	SHA256  string  `json:"ledger_sha256,omitempty"` // of the bytes before End
	Time    float64 `json:"time"`                    // of the last entry
}

// A layout is a kind of target.
type layout struct {
	name string
	// open opens a target at a place, a folder or an address, where the state says how far it is.
	open func(where string, run *Run, s state) (Target, error)
	// again: the whole run is read anew, and the file is written whole.
	again bool
	// find returns the position of a target other than a folder; nil: stateFile has it.
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

// Layouts are the names of export formats. An address follows the name of a server's.
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
