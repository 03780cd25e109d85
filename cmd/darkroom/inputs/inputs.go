// Package inputs reads the inputs of command lines: experiments, runs, pictures and clips.
package inputs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/devices"
	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/preflight"
	"github.com/darkroom-rl/darkroom/trainer/trained"
	"github.com/spf13/cobra"
)

// ExampleFlag is --example of the commands that take an experiment's file.
func ExampleFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "example", "", "the embedded experiment `NAME` in place of a file: 'darkroom list examples'")
}

// Example is the text of the embedded experiment that was asked for, the quickstart where nothing was. No
// name: a file was named.
func Example(args []string, asked string) (name string, text []byte, err error) {
	switch {
	case len(args) == 1 && asked != "":
		return "", nil, exits.Usagef("--example %s and %s: name one of them", asked, args[0])
	case len(args) == 1:
		return "", nil, nil
	case asked == "":
		asked = assets.Quickstart
	}
	if text, err = assets.Config(asked); err != nil {
		return "", nil, exits.Usage(err)
	}
	return asked, text, nil
}

// FileOrExample reads the file that was named, or the embedded experiment that was asked for.
func FileOrExample(args []string, asked string, sets []string) (*experiment.Experiment, error) {
	name, text, err := Example(args, asked)
	switch {
	case err != nil:
		return nil, err
	case name == "":
		return readExperiment(args[0], sets)
	}
	e, err := experiment.Parse(name+".toml", text, sets)
	return e, AsUsage(err)
}

// readExperiment reads a file; an error in it is the user's mistake.
func readExperiment(file string, sets []string) (*experiment.Experiment, error) {
	e, err := experiment.Read(file, sets)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exits.Usagef("%s: no such file", file)
	}
	return e, AsUsage(err)
}

// AsUsage is an error of a file that is wrong: the user's, with how many mistakes there are.
func AsUsage(err error) error {
	var mistakes config.Mistakes
	switch {
	case err == nil:
		return nil
	case errors.As(err, &mistakes):
		return exits.Usagef("%s\n%w", console.Plural(int64(len(mistakes)), "mistake"), err)
	}
	return exits.Usage(err)
}

// WeightsFlag is --weights of a command that reads a run.
func WeightsFlag(cmd *cobra.Command, weights *string) {
	cmd.Flags().StringVar(weights, "weights", string(trained.Evaluated), "of the run: current; ema, their moving average (optim.ema); or evaluated, those of them that its evaluations measure (evaluate.weights)")
}

// KnownWeights reports whether --weights can be this.
func KnownWeights(name string) bool {
	return slices.Contains([]trained.Which{trained.Evaluated, trained.Current, trained.EMA}, trained.Which(name))
}

// OpenRun opens a run, or a checkpoint of one, and reports damage of newer ones. model, unless it is empty, is where
// the trained model lies now.
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

// IsPicture goes by a file's ending.
func IsPicture(path string) bool {
	return slices.Contains(PictureFiles, strings.ToLower(filepath.Ext(path)))
}

// PictureFiles are the endings of files of pictures. A GIF may be either: it is taken for a clip.
var PictureFiles = []string{".png", ".jpg", ".jpeg", ".webp"}

// MaxPicture is the largest file of a picture, as vision has it.
const MaxPicture = 64 << 20

// MaxLine is the longest line of an items file.
const MaxLine = 16 << 20

// CheckFiles holds an experiment against the files that it names, before anything is computed. An error is the user's
// mistake; notes are warnings.
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
