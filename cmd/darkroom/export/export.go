// Package export is 'darkroom export': weights for other programs, and a run's numbers for trackers.
package export

import (
	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/trainer/trained/layouts"
	"github.com/darkroom-rl/darkroom/vision/vlm"

	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/cmd/darkroom/devices"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/inputs"
	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/trainer/trained"
	"github.com/darkroom-rl/darkroom/view/track"
)

// Command is 'darkroom export'.
func Command() *cobra.Command {
	var o options
	var happened trackExport
	cmd := &cobra.Command{
		Use:   "export RUN|CHECKPOINT --as LAYOUT --out PATH",
		Short: "Write what a run has trained, or an adapter, for other programs",
		Long: `Write what a run has trained in the layout that another program reads. RUN is a run's
folder, and the newest checkpoint is taken; --lora names an adapter from elsewhere.

` + layouts.Help() + `
A model card goes with it: README.md in a folder, NAME.md beside NAME.safetensors. Folders on the way are made.

Where two networks take turns (Wan 2.2's A14B), each has an adapter: that of transformer_2 lies in
a folder of this name below PEFT's, and for diffusers in NAME.transformer_2.safetensors, which
load_lora_weights(FILE, load_into_transformer_2=True) reads.

A model whose weights are compressed (bitsandbytes, FP8) gets the adapter in a plain copy, in bf16 as a rule: compressed
again, most of an adapter would be lost. The share that rounding loses is printed.

The model is the run's own; --model names its folder if it has moved. Layers of
vision-language adapters have the names of transformers 5 (model.language_model.layers.0...), or
with --names transformers4 those of 4.51 and before (model.layers.0...).`,
		Example: "  darkroom export runs/maps --as diffusers --out maps.safetensors\n" +
			"  darkroom export runs/maps --as tensorboard\n" +
			"  darkroom export runs/zoom --as hub --weights ema --out zoom-model\n" +
			"  darkroom export --lora maps.safetensors --as merged --model stable-diffusion-3.5-medium --out sd35-maps",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.run = args[0]
			}
			if track.Known(o.as) {
				return happened.write(cmd, &o)
			}
			if err := o.check(cmd); err != nil {
				return err
			}
			r, err := o.write(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return console.Emit(cmd, r, func(w io.Writer) { fmt.Fprintln(w, r) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.lora, "lora", "", "an adapter in place of a run: `PATH` of a folder of PEFT's, or of a file of diffusers', kohya's or ComfyUI's")
	f.StringVar(&o.as, "as", "", "`LAYOUT`: "+strings.Join(slices.Concat(layouts.Names(), track.Layouts()), ", "))
	happened.flags(cmd)
	f.StringVar(&o.out, "out", "", "`PATH` to write; it must not exist")
	inputs.WeightsFlag(cmd, &o.weights)
	f.StringVar(&o.model, "model", "", "folder `DIR` of the model (default: the run's)")
	f.StringVar(&o.names, "names", "transformers5", "of a vision-language adapter's layers: transformers5 or transformers4")
	f.StringVar(&o.dtype, "dtype", "stored", "of trained parameters in --as hub: stored, which is the model's own type, or f32")
	devices.Flag(cmd, &o.device)
	f.StringVar(&o.component, "component", "", "`NAME` of the network in its pipeline (default: the model's, or transformer or unet, as the adapter says)")
	return cmd
}

type options struct{ run, lora, as, out, model, component, device, weights, names, dtype string }

// report is the output of --json.
type report struct {
	Out       string  `json:"out"`
	As        string  `json:"as"`
	Iteration *int    `json:"iteration,omitempty"` // of the checkpoint
	Weights   string  `json:"weights,omitempty"`   // of the run: current or ema
	Layers    int     `json:"layers"`              // with an adapter
	Tensors   int     `json:"tensors"`             // of the model itself
	Second    string  `json:"second,omitempty"`    // where the adapter of a second network is
	Unpacked  int     `json:"unpacked,omitempty"`  // matrices that were compressed in the model, and got the adapter
	Lost      float64 `json:"lost,omitempty"`      // the share of the adapter that rounding took there
}

func (r *report) String() string {
	s := fmt.Sprintf("%s: %s, %s", r.Out, r.As, console.Plural(int64(r.Layers), "layer"))
	if r.Tensors > 0 {
		s = fmt.Sprintf("%s: %s, %s", r.Out, r.As, console.Plural(int64(r.Tensors), "trained tensor"))
	}
	if r.Second != "" {
		s += ", that of transformer_2 in " + r.Second
	}
	if r.Iteration != nil {
		s += fmt.Sprintf(", after iteration %d", *r.Iteration)
	}
	if r.Unpacked > 0 {
		s += fmt.Sprintf("; the model's weights were compressed, and are plain in the copy: rounding lost %.2f %% of the adapter", 100*r.Lost)
	}
	if r.Weights == string(trained.EMA) {
		s += ", the moving average (--weights ema)"
	}
	return s
}

func (o *options) check(cmd *cobra.Command) error {
	var wrong []string
	must := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	given := cmd.Flags().Changed
	must(o.run != "" || o.lora != "", "what is exported is missing: the folder of a run, or --lora with an adapter")
	must(o.run == "" || o.lora == "", "a run and --lora: one of them")
	must(o.out != "", "--out is missing: what to write")
	l, known := layouts.Named(o.as)
	must(known, "--as %q: one of %s", o.as, strings.Join(slices.Concat(layouts.Names(), track.Layouts()), ", "))
	must(o.lora == "" || !given("weights"), "--weights is of a run")
	must(inputs.KnownWeights(o.weights), "--weights %q: evaluated, current or ema", o.weights)
	must(slices.Contains([]string{"transformers5", "transformers4"}, o.names), "--names %q: transformers5 or transformers4", o.names)
	must(slices.Contains([]string{"stored", "f32"}, o.dtype), "--dtype %q: stored or f32", o.dtype)
	must(!l.Model || o.model != "" || o.lora == "", "--as %s needs --model, the folder of a model", o.as)
	must(l.Form == layouts.Whole || !given("device"), "--device is for --as %s: the other layouts compute nothing", layouts.Those("and", func(l layouts.Layout) bool { return l.Form == layouts.Whole }))
	must(l.Values || !given("dtype"), "--dtype is for --as %s", layouts.Those("and", func(l layouts.Layout) bool { return l.Values }))
	if l.Form == layouts.File && o.out != "" && !strings.HasSuffix(o.out, ".safetensors") {
		o.out += ".safetensors"
	}
	if o.out != "" {
		_, err := os.Lstat(o.out)
		must(errors.Is(err, os.ErrNotExist), "--out %s: it exists already", o.out)
		_, err = os.Lstat(l.Second(o.out))
		must(errors.Is(err, os.ErrNotExist), "--out %s: %s exists already", o.out, l.Second(o.out))
	}
	if len(wrong) > 0 {
		return exits.Usagef("%s\nhint: see '%s --help'", strings.Join(wrong, "\n"), cmd.CommandPath())
	}
	return nil
}

// write writes the requested form.
func (o *options) write(log io.Writer) (*report, error) {
	l, _ := layouts.Named(o.as) // check knows it
	x := &layouts.Export{Layout: l, Out: o.out, Adapter: o.lora, Component: o.component, Wide: o.dtype == "f32",
		Names: map[string]vlm.Names{"transformers4": vlm.Transformers4, "transformers5": vlm.Transformers5}[o.names]}
	r := &report{Out: o.out, As: o.as}
	if l.Form == layouts.Whole { // first: a missing device is reported before anything is read
		be, err := devices.Open(o.device)
		if err != nil {
			return nil, err
		}
		defer be.Close()
		x.Backend = be
	}
	if err := o.source(x, log); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
		return nil, exits.Usage(err)
	}
	if x.Run != nil {
		x.Weights = trained.Which(o.weights)
		r.Iteration, r.Weights = &x.Run.Checkpoint.Iteration, o.weights
	}
	w, err := x.Do()
	r.Out, r.Second, r.Layers, r.Tensors = w.Out, w.Second, w.Layers, w.Tensors
	r.Unpacked, r.Lost = w.Lost.Matrices, w.Lost.Share()
	var refused layouts.Refused
	if errors.As(err, &refused) {
		err = exits.Usage(err)
	}
	return r, err
}

// source opens the run, or finds the model of an adapter.
func (o *options) source(x *layouts.Export, log io.Writer) (err error) {
	if o.run == "" {
		if o.model != "" {
			if x.Model, err = assets.Resolve(o.model); err != nil {
				return exits.Usage(err)
			}
		}
		return nil
	}
	if x.Run, err = inputs.OpenRun(o.run, o.model, &o.weights, log); err != nil {
		return err
	}
	x.Model = x.Run.Model
	if base := x.Run.Experiment.Model.Base; base != "" && x.Layout.Form == layouts.Whole {
		return exits.Usagef("--as %s: the model of %s is one file, %s, and a whole folder is copied from a folder\nhint: --model names the model in diffusers' layout; adapters leave as %s", o.as, o.run, x.Model,
			layouts.Those("or", func(l layouts.Layout) bool { return l.Form != layouts.Whole }))
	} else if base != "" {
		x.Model = base
	}
	if x.Run.Adapted() {
		return nil
	}
	if !x.Layout.Values {
		return exits.Usagef("--as %s: %s trained parameters of the model itself, and no adapter\nhint: --as %s writes the whole model", o.as, o.run,
			layouts.Those("or", func(l layouts.Layout) bool { return l.Values }))
	}
	x.Dry, err = devices.Dry()
	return err
}
