package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/cmd/darkroom/devices"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/inputs"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/train"
	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/cmd/internal/version"
	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/outside/regular"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/view/ablate"
)

func ablateCommand() *cobra.Command {
	o := ablateOptions{}
	cmd := &cobra.Command{
		Use:   "ablate BASE.toml --vary KEY=v1,v2,...",
		Short: "Train with every combination of some keys' values, and compare them",
		Long: `Train with every combination of some keys' values: the same seeds, the same budget, a run's
folder each. All files are checked before anything runs. The command may be stopped and repeated,
also with more values or seeds: finished runs are skipped, interrupted ones resume. Without
BASE.toml it varies the quickstart, or the example that --example names.

Runs go one after another on the device of the file's run.device. With --device each run has a
device of its own, and as many run side by side as devices are named. Their results are the same on
devices of one model, since a run's numbers do not depend on its neighbours. A lost device is left
out. With a time as the budget, runs side by side share the host's cores.

At the end: one table with intervals over seeds, ablate.md, and ablate.html with curves of the
held-out reward over iterations and over time.`,
		Example: "  darkroom ablate experiment.toml --vary sampler.window.size=1,2,4 --seeds 3\n" +
			"  darkroom ablate --example nft --vary loss.beta=0.1,1 --budget 10\n" +
			"  darkroom ablate experiment.toml --vary preset=flow_grpo,mixgrpo --vary optim.lr=1e-4,3e-4 --budget 10m --out runs/methods\n" +
			"  darkroom ablate experiment.toml --vary loss.clip_range=1e-4,1e-3 --device cuda:0,cuda:1\n" +
			"  darkroom ablate experiment.toml --vary 'model.lora.targets=[\"attn.to_q\"],[\"attn.to_q\",\"attn.to_v\"]' --budget 40 --markdown",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	cmd.Flags().StringArrayVar(&o.vary, "vary", nil, "`KEY=VALUE,VALUE,...`, as often as needed: every combination is run")
	inputs.ExampleFlag(cmd, &o.example)
	cmd.Flags().IntVar(&o.seeds, "seeds", 3, "seeds of each combination: the file's, and those after it")
	cmd.Flags().StringVar(&o.out, "out", "", "the `FOLDER` of all runs (default runs/NAME-ablate)")
	cmd.Flags().StringVar(&o.budget, "budget", "", "of each run: `ITERATIONS`, or a time of training such as 90s or 10m")
	cmd.Flags().StringArrayVar(&o.sets, "set", nil, "set `KEY=VALUE` over the file for all, as often as needed")
	devices.Flag(cmd, &o.device)
	cmd.Flags().Lookup("device").Usage += "; several, as cuda:0,cuda:1, each take a run at a time"
	cmd.Flags().BoolVar(&o.markdown, "markdown", false, "print the table as Markdown")
	return cmd
}

type ablateOptions struct {
	vary, sets  []string
	seeds       int
	out, budget string
	example     string
	device      string
	devices     []string // of --device, where it was given
	markdown    bool
}

// grid reads and checks everything.
func (o *ablateOptions) grid(args []string) (*ablate.Grid, error) {
	if o.seeds < 1 {
		return nil, exits.Usagef("--seeds %d: at least one", o.seeds)
	}
	budget, err := ablate.ParseBudget(o.budget)
	if err != nil {
		return nil, exits.Usage(err)
	}
	var vary []ablate.Vary
	for _, s := range o.vary {
		v, err := ablate.ParseVary(s)
		if err != nil {
			return nil, exits.Usage(err)
		}
		if v.Key == "run.device" && len(o.devices) > 0 {
			return nil, exits.Usagef("--device says where runs compute, and --vary run.device does\nhint: leave one of them out")
		}
		vary = append(vary, v)
	}
	stem, text, err := inputs.Example(args, o.example)
	if err != nil {
		return nil, err
	}
	name := stem + ".toml"
	if stem == "" {
		name, stem = args[0], strings.TrimSuffix(filepath.Base(args[0]), filepath.Ext(args[0]))
		if text, err = regular.Read(name, config.MaxSize); err != nil {
			return nil, exits.Usage(err)
		}
	}
	if o.out == "" {
		o.out = filepath.Join("runs", stem+"-ablate")
	}
	if len(o.devices) > 0 {
		if _, err := experiment.Parse(name, text, append(slices.Clone(o.sets), "run.device="+o.device)); err != nil {
			return nil, inputs.AsUsage(err)
		}
		o.sets = append(o.sets, "run.device="+o.devices[0]) // each run has one
	}
	g, err := ablate.Plan(name, text, vary, ablate.Options{Dir: o.out, Sets: o.sets, Seeds: o.seeds, Budget: budget})
	if err != nil {
		return nil, exits.Usage(err)
	}
	return g, nil
}

func (o *ablateOptions) run(cmd *cobra.Command, args []string) error {
	console.OutliveReaders()
	if asJSON, _ := cmd.Flags().GetBool("json"); asJSON && o.markdown {
		return exits.Usagef("--markdown prints Markdown, and --json JSON\nhint: leave one of them out")
	}
	if cmd.Flags().Changed("device") {
		o.devices = experiment.Run{Device: o.device}.Devices()
	}
	g, err := o.grid(args)
	if err != nil {
		return err
	}
	if err := o.look(); err != nil { // missing files are reported before anything runs
		return err
	}
	log := cmd.ErrOrStderr()
	bar := console.NewProgress(log, "ablate")
	ran := g.Run(cmd.Context(), ablate.Runner{Devices: o.devices, Open: o.open, Version: version.Read().String(),
		Logf: func(format string, args ...any) {
			bar.End()
			fmt.Fprintf(log, format+"\n", args...)
		},
		Report: func(_ *ablate.Cell, r *ablate.Trial, n, all int, line *ledger.Line, timing *ledger.TimingLine) {
			bar.End()
			where := ""
			if r.Device != "" {
				where = " " + r.Device
			}
			fmt.Fprintf(log, "[%d/%d%s] %s\n", n, all, where, train.IterationLine(line, timing))
		},
		Progress: bar.Set})
	bar.End()
	table, err := g.Table()
	if err == nil {
		err = table.WritePage(o.out)
	}
	if err != nil {
		return errors.Join(ran, err)
	}
	if err := console.Emit(cmd, table, func(w io.Writer) { o.print(w, table) }); err != nil {
		return err
	}
	if errors.Is(ran, context.Canceled) {
		return exits.Early{Code: exits.Interrupted, Message: "interrupted, and saved: the same command goes on"}
	}
	return ran
}

// look opens every device that was named, and closes it again.
func (o *ablateOptions) look() error {
	for _, d := range o.devices {
		be, err := devices.OpenRank(d, len(o.devices))
		if err != nil {
			return err
		}
		be.Close()
	}
	return nil
}

// open opens the devices of a run: its own of --device, or those of its file. "auto" stays the device of the run's
// beginning.
func (o *ablateOptions) open(e *experiment.Experiment, dir string) (ablate.Place, error) {
	names := devices.Of(e, dir, false)
	if len(o.devices) == 0 {
		return devices.OpenRanks(names, e.Run.Patience())
	}
	be, err := devices.OpenRank(names[0], len(o.devices))
	if err != nil {
		return nil, err
	}
	return &devices.Ranks{All: []devices.Backend{be}}, nil
}

func (o *ablateOptions) print(w io.Writer, t *ablate.Table) {
	if o.markdown {
		fmt.Fprint(w, t.Markdown())
		return
	}
	header, rows := t.Cells()
	text := console.Table{Rows: rows}
	for _, h := range header {
		text.Header = append(text.Header, strings.ToUpper(h))
	}
	text.Write(w)
	for _, r := range t.Rows {
		for _, m := range r.Missing {
			fmt.Fprintf(w, "%s: %s\n", r.Name, m)
		}
	}
	fmt.Fprintf(w, "\nlook at  %s\n", filepath.Join(o.out, ablate.PageName))
}
