package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/view/track"
)

// The contents of a run's folder, as files that other pages read. Weights are in export.go.

// trackExport is `export RUN --as tensorboard` and its like.
type trackExport struct {
	follow bool
	parent bool // end with standard input: a run's own follower (train/followers.go)
}

func (x *trackExport) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&x.follow, "follow", false, "of what happened: go on until the run has ended")
	f.BoolVar(&x.parent, "until-eof", false, "with --follow: end with standard input in place of the run")
	_ = f.MarkHidden("until-eof") // it fails for a flag that is not there
}

// refuse reports options that are for weights alone.
func (x *trackExport) refuse(cmd *cobra.Command, o *options) error {
	var wrong []string
	if o.run == "" {
		wrong = append(wrong, "--as "+o.as+" needs the folder of a run")
	}
	for _, name := range []string{"lora", "weights", "model", "dtype", "device", "component"} {
		if cmd.Flags().Changed(name) {
			wrong = append(wrong, fmt.Sprintf("--%s is of weights, and --as %s writes what happened", name, o.as))
		}
	}
	if cmd.Flags().Changed("names") && !slices.Contains(track.Names(), o.names) {
		wrong = append(wrong, fmt.Sprintf("--names %q: of what happened it is one of %s", o.names, strings.Join(track.Names(), ", ")))
	}
	if len(wrong) > 0 {
		return exits.Usagef("%s\nhint: see '%s --help'", strings.Join(wrong, "\n"), cmd.CommandPath())
	}
	return nil
}

// trackReport is the output of --json.
type trackReport struct {
	Out     string `json:"out"`
	As      string `json:"as"`
	Entries int    `json:"entries"` // that were new
}

func (x *trackExport) write(cmd *cobra.Command, o *options) error {
	if err := x.refuse(cmd, o); err != nil {
		return err
	}
	options := track.Options{Run: o.run, As: o.as, Out: o.out}
	if cmd.Flags().Changed("names") {
		options.Names = o.names
	}
	e, err := track.Open(options)
	if errors.Is(err, track.ErrOther) {
		return exits.Usage(err)
	}
	if err != nil {
		return err
	}
	var n int
	if x.follow {
		n, err = e.Follow(cmd.Context(), x.ended(cmd, o.run))
	} else {
		n, err = e.Export()
	}
	if err != nil {
		return err
	}
	if note := e.Note(); note != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", note)
	}
	r := trackReport{e.Out, o.as, n}
	return console.Emit(cmd, r, func(w io.Writer) { fmt.Fprintf(w, "%s: %s, %d new\n", r.Out, r.As, r.Entries) })
}

// ended says when a run that is followed has ended: as its folder says, or with standard input.
func (x *trackExport) ended(cmd *cobra.Command, run string) func() (bool, error) {
	if !x.parent {
		return func() (bool, error) { return track.Ended(run) }
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(cmd.Context()))
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // an error is an end, too
		stop()
	}()
	return func() (bool, error) { return ctx.Err() != nil, nil }
}
