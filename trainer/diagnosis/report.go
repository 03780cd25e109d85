package diagnosis

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/darkroom-rl/darkroom/outside/regular"
)

// File is where a run keeps its Report.
const File = "diagnosis.json"

// A Report is what was measured and what was found.
type Report struct {
	Measured
	Findings []Finding `json:"findings"`
}

// most bounds a file that is read.
const most = 1 << 20

// Read reads a report; nil where there is none.
func Read(path string) (*Report, error) {
	text, err := regular.Read(path, most)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return &r, nil
}
