package inputs

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/trainer/trained"
)

// WeightsFlag is --weights of a command that reads a run.
func WeightsFlag(cmd *cobra.Command, weights *string) {
	cmd.Flags().StringVar(weights, "weights", string(trained.Evaluated), "of the run: current; ema, their moving average (optim.ema); or evaluated, those of them that its evaluations measure (evaluate.weights)")
}

// KnownWeights reports whether --weights can be this.
func KnownWeights(name string) bool {
	return slices.Contains([]trained.Which{trained.Evaluated, trained.Current, trained.EMA}, trained.Which(name))
}

// OpenRun opens a run, or a checkpoint of one, and says what is wrong with newer ones. model, unless it is empty, is
// where the trained model lies now.
func OpenRun(path, model string, weights *string, log io.Writer) (*trained.Run, error) {
	r, err := trained.Open(path)
	if err != nil {
		return nil, exits.Usage(err)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(log, "note: %s\n", n)
	}
	of := r.Named(trained.Which(*weights))
	if of == trained.EMA && *weights == string(trained.Evaluated) {
		fmt.Fprintln(log, "note: the weights are the moving average, which the run's evaluations measure; --weights current takes the others")
	}
	*weights = string(of)
	if model != "" {
		if r.Model, err = assets.Resolve(model); err != nil {
			return nil, exits.Usage(err)
		}
	}
	return r, nil
}

// closing closes values that may be nil.
func CloseValues(v *trained.Values, err error) error {
	if v == nil {
		return err
	}
	return errors.Join(err, v.Close())
}
