// Package train is 'darkroom train': the loop of trainer/run, with progress, traces and trackers beside it.
package train

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/cmd/darkroom/devices"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/fleet"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/inputs"
	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/cmd/internal/interrupts"
	"github.com/darkroom-rl/darkroom/cmd/internal/version"
	"github.com/darkroom-rl/darkroom/record/folder"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/run"
	"github.com/darkroom-rl/darkroom/view/report"
)

// Command is 'darkroom train'.
func Command() *cobra.Command {
	o := options{}
	cmd := &cobra.Command{
		Use:   "train [FILE.toml]",
		Short: "Post-train a model as an experiment's file says",
		Long: `Post-train a model as an experiment's file says. Without a file it runs the quickstart: the
embedded model learns to draw what its captions ask for.

Everything is kept in a folder: ledger, samples, pictures, checkpoints. The first Ctrl-C
finishes the iteration and saves, the second one ends at once and loses it. --resume goes on
with the same bytes; it needs the file that the run began with, or the run's folder alone.
--restart begins anew in the folder, and renames the old one to FOLDER.1.`,
		Example: "  darkroom train\n  darkroom train experiment.toml --set run.seed=2 --out runs/second\n  darkroom train experiment.toml --resume\n  darkroom train runs/second --resume",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, args)
		},
	}
	cmd.Flags().StringVar(&o.out, "out", "", "the run's `FOLDER` (default runs/NAME)")
	cmd.Flags().BoolVar(&o.resume, "resume", false, "go on with the run in the folder")
	cmd.Flags().BoolVar(&o.restart, "restart", false, "start over, and keep the old run as FOLDER.1")
	inputs.ExampleFlag(cmd, &o.example)
	devices.RanksFlag(cmd, &o.device)
	o.fleet.Flags(cmd)
	cmd.Flags().StringArrayVar(&o.sets, "set", nil, "set `KEY=VALUE` over the file, as often as needed")
	return cmd
}

type options struct {
	out, example string
	device       string
	resume       bool
	restart      bool
	sets         []string
	fleet        fleet.Options
}

// ofFolder takes the folder of a run for the file in it.
func (o *options) ofFolder(args []string) error {
	if len(args) == 0 {
		return nil
	}
	dir := args[0]
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil
	}
	args[0] = filepath.Join(dir, folder.Config)
	_, err := os.Stat(args[0])
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return exits.Usagef("%s is a folder, and holds no run\nhint: name an experiment's file", dir)
	case o.out == "" && !o.resume && !o.restart:
		return exits.Usagef("%s is the folder of a run\nhint: --resume goes on with it, --restart begins it anew, --out names another folder for its experiment", dir)
	case o.out == "":
		o.out = dir
	}
	return nil
}

func (o *options) run(cmd *cobra.Command, args []string) (err error) {
	console.OutliveReaders()
	if cmd.Flags().Changed("device") {
		o.sets = append(o.sets, "run.device="+o.device)
	}
	if o.resume && o.restart {
		return exits.Usagef("--resume goes on with the run, and --restart begins it anew\nhint: leave one of them out")
	}
	if err := o.ofFolder(args); err != nil {
		return err
	}
	e, err := inputs.FileOrExample(args, o.example, o.sets)
	if err != nil {
		return inputs.WithFiles(e, err)
	}
	notes, err := inputs.CheckFiles(e)
	if err != nil {
		return err
	}
	dir := o.out
	if dir == "" {
		dir = filepath.Join("runs", e.Run.Name)
	}
	if err := o.fleet.Check(cmd, e); err != nil {
		return err
	}
	on, err := devices.OpenRanks(devices.Of(e, dir, o.restart), e.Run.Patience())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, on.Close(err)) }()
	log := cmd.ErrOrStderr()
	if on.Note != "" {
		console.Message(log, "note: "+on.Note)
	}
	if says := devices.Unused(e.Run.Device); says != "" {
		notes = append([]string{says}, notes...)
	}
	for _, n := range notes {
		console.Message(log, "note: "+n)
	}
	bar := console.NewProgress(log, e.Run.Name)
	began := time.Now()
	words, err := iterationWords(e)
	if err != nil {
		return exits.Usage(err)
	}
	fmt.Fprintf(log, "%s: %s, %s, in %s\n", e.Run.Name, words, devices.Where(on.All), dir)
	follow := newFollowers(e.Track, dir)
	here := 0 // iterations of this process
	rolling := false
	rolls := 0.5 // of an iteration's time; then the last one's share
	say := func(format string, args ...any) {
		bar.End()
		console.Message(log, fmt.Sprintf(format, args...))
	}
	var held *console.Progress // of the evaluation under way
	stopping := context.AfterFunc(cmd.Context(), func() {
		say("stopping when the iteration or the evaluation under way is finished, which is saved; once more ends at once and loses it")
	})
	defer stopping()
	interrupts.LastWords(cmd.Context(), func() { say("ended at once, %s", kept(dir)) })
	workers := &fleet.Workers{Options: o.fleet, Dir: dir, Run: e.Run.Name, Logf: say}
	traced := newTraces(os.Getenv, e.Run.Name, say)
	result, err := run.Run(cmd.Context(), e, workers.Into(on.Into(run.Options{Dir: dir, Resume: o.resume, Restart: o.restart, Version: version.Read().String(),
		Logf: say, Part: traced.part, Job: traced.job,
		Rolling: func(iteration, done, all int) {
			follow.begin()
			if !rolling {
				rolling = true
				bar.From(iteration, 0)
			}
			bar.Within(iteration, e.Run.Iterations, rolls*float64(done)/float64(max(all, 1)))
		},
		Measuring: func(done, all int) {
			if held == nil {
				bar.End()
				held = console.NewProgress(log, "held-out "+run.ModalityOf(e).Samples)
			}
			if held.Set(done, all); done >= all {
				held.End()
				held = nil
			}
		},
		Report: func(l *ledger.Line, t *ledger.TimingLine) {
			follow.begin()
			if all := t.Seconds["all"]; all > 0 {
				rolls = t.Seconds["roll"] / all
			}
			bar.End()
			traced.iteration(l, t)
			here++
			fmt.Fprintln(log, IterationLine(l, t))
			if here == 1 { // the time before it was the model's and an evaluation's
				bar.From(l.Iteration-1, time.Duration(t.Seconds["all"]*float64(time.Second)))
			}
			bar.Set(l.Iteration, e.Run.Iterations)
		}})))
	bar.End()
	err = errors.Join(err, workers.Close(err == nil && result.Status != ledger.Interrupted))
	follow.end(log)
	traced.close()
	switch {
	case refused(err):
		return exits.Usage(err)
	case err != nil:
		return err
	}
	if err := report.Write(dir); err != nil { // the run is complete without its page
		fmt.Fprintf(log, "warning: the run's page was not written: %v\n", err)
	}
	ended := ending{Result: result, Experiment: e, dir: dir, resumed: o.resume, here: here, took: time.Since(began)}
	if err := console.Emit(cmd, result, ended.write); err != nil {
		return err
	}
	switch result.Status {
	case ledger.Stopped:
		return exits.Early{Code: exits.Stopped, Message: "stopped by a monitor: " + result.Why}
	case ledger.Interrupted:
		return exits.Early{Code: exits.Interrupted, Message: "interrupted, and saved: --resume goes on"}
	}
	return nil
}

// kept is the saved part of a run that ends in the middle of an iteration, in words.
func kept(dir string) string {
	f := folder.Folder{Dir: dir}
	all, err := f.All()
	switch {
	case err != nil:
		return fmt.Sprintf("what was saved is in %s: --resume goes on", dir)
	case len(all) == 0:
		if worth, err := f.Worth(); err != nil || worth {
			return "with what was measured before the first iteration saved: --resume goes on from there"
		}
		return "with nothing saved yet: the same command begins again"
	case all[len(all)-1].Iteration == 0:
		return "with no iteration saved: --resume begins the first one again"
	}
	return fmt.Sprintf("the checkpoint of iteration %d is kept: --resume goes on after it", all[len(all)-1].Iteration)
}

// iterationWords say how many iterations there are of how many samples, by stages where there are several.
func iterationWords(e *experiment.Experiment) (string, error) {
	what, first, all := run.ModalityOf(e).Samples, 0, []string{}
	for i := range max(1, len(e.Stages)) {
		settings, err := e.Iteration(first)
		if err != nil {
			return "", err
		}
		samples := settings.Rollout.PromptsPerIteration * settings.Samples()
		if len(e.Stages) < 2 {
			return fmt.Sprintf("%s of %d %s", console.Plural(int64(e.Run.Iterations), "iteration"), samples, what), nil
		}
		first += e.Stages[i].Iterations
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s of %d %s %s", console.Plural(int64(e.Stages[i].Iterations), "iteration"), samples, what, inBrackets(settings.Stage))))
	}
	return strings.Join(all, ", then "), nil
}

// inBrackets is a stage's name beside its numbers.
func inBrackets(name string) string {
	if name == "" {
		return ""
	}
	return "(" + console.Printable(name) + ")"
}

// refused reports whether nothing was done, since the folder does not hold the run that was asked for.
func refused(err error) bool {
	return slices.ContainsFunc([]error{folder.ErrUsed, folder.ErrNone, folder.ErrStrange, run.ErrChanged, run.ErrOther, run.ErrLost, run.ErrFew},
		func(why error) bool { return errors.Is(err, why) })
}
