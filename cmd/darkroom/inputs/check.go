package inputs

import (
	"github.com/darkroom-rl/darkroom/cmd/darkroom/devices"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/preflight"
)

// CheckFiles holds an experiment against the files that it names, before anything is computed. What is wrong is the
// user's mistake; notes are what only seems unwise.
func CheckFiles(e *experiment.Experiment) (notes []string, err error) {
	dry, err := devices.Dry()
	if err != nil {
		return nil, err
	}
	return CheckOn(e, dry)
}

// WithFiles adds to the mistakes of a file those of the files that it names, as far as it could be read.
func WithFiles(e *experiment.Experiment, mistakes error) error {
	if e == nil {
		return mistakes
	}
	if _, err := CheckFiles(e); err != nil {
		return err
	}
	return mistakes
}

// CheckOn is CheckFiles on a backend.
func CheckOn(e *experiment.Experiment, dry kernels.Backend) (notes []string, err error) {
	notes, err = preflight.Check(e, dry)
	for _, r := range e.Rewards {
		if toy := r.Toy(); toy != "" {
			notes = append(notes, "reward "+r.Name+" is "+toy)
		}
	}
	if says := e.Fitted(); says != "" {
		notes = append(notes, says)
	}
	return notes, AsUsage(err)
}
