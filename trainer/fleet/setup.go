package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/data/prompts"
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

	// Networks are the rewards that workers may compute, by label, and the files that each reads, of folders that are no
	// part of the program.
	Networks map[string]json.RawMessage `json:"networks,omitempty"`

	Lists []prompts.Stretch `json:"lists,omitempty"` // that the prompts stand in, training's first
}

// pack is the setup as bytes, whose hash is its name.
func (s Setup) pack() ([]byte, error) { return json.Marshal(s) }

// fetchSetup fetches what a job's run is, for a worker of its version.
func fetchSetup(ctx context.Context, from Blobs, setup Blob, about About) (s Setup, err error) {
	data, err := from.Get(ctx, setup)
	if err != nil {
		return s, fmt.Errorf("fetching the run's setup: %w", err)
	}
	if s, err = unpackSetup(data); err == nil && s.Version != about.Version {
		err = Unfit{fmt.Errorf("the trainer runs version %s of the program, and this worker %s: their numbers may differ\nhint: run the same file on all machines", s.Version, about.Version)}
	}
	return s, err
}

// SameClass refuses a worker whose arithmetic has other bits than the trainer's.
func SameClass(s Setup, about About) error {
	if s.Class == about.Class {
		return nil
	}
	return Unfit{fmt.Errorf("the trainer computes as %q, and this worker as %q: their bits differ\nhint: DARKROOM_CUDA=exact has the CPU's bits on every device", s.Class, about.Class)}
}

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
