package fleet

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/trainer/prompts"
)

// A Setup is what a worker opens before its first job: what does not change while a run goes on.
type Setup struct {
	Version string           `json:"version"` // of the program
	Class   string           `json:"class"`   // of arithmetic: two of one class compute the same bits
	Config  string           `json:"config"`  // the resolved experiment
	Model   Hash             `json:"model"`   // of the list of the model's files and their sums
	Files   json.RawMessage  `json:"files"`   // that list
	Train   []prompts.Prompt `json:"train"`
	HeldOut []prompts.Prompt `json:"heldout,omitempty"`
}

// pack is the setup as bytes, whose hash is its name.
func (s Setup) pack() ([]byte, error) { return json.Marshal(s) }

// unpackSetup is pack's way back.
func unpackSetup(data []byte) (s Setup, err error) {
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("the run's setup: %w", err)
	}
	if len(s.Train) == 0 || s.Config == "" {
		return s, errors.New("the run's setup has no experiment or no prompts")
	}
	return s, nil
}
