package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

func exportCommand() *cobra.Command {
	var o exportOptions
	cmd := &cobra.Command{
		Use:   "export --lora PATH --as LAYOUT --out PATH",
		Short: "Write an adapter for other programs, or merge it into a model",
		Long: `Write an adapter in the layout that another program reads, or merge it into a model:

  --as peft       a folder with adapter_config.json and adapter_model.safetensors
  --as diffusers  one file that load_lora_weights of a diffusers pipeline reads
  --as kohya      one file in the layout of kohya's scripts, which ComfyUI reads, for
                  adapters of U-Nets and of FLUX; --model is the pipeline's folder
  --as merged     a copy of the pipeline's folder --model with the adapter folded
                  in: W + scale x B A, in fp32, rounded to the type that W has

--lora is a folder of PEFT's (a run's checkpoint is one), or a folder or file of diffusers'.`,
		Example: "  darkroom export --lora runs/maps/checkpoints/000060 --as diffusers --out maps.safetensors\n" +
			"  darkroom export --lora maps.safetensors --as merged --model stable-diffusion-3.5-medium --out sd35-maps",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(cmd); err != nil {
				return err
			}
			r, err := o.run()
			if err != nil {
				return err
			}
			return emit(cmd, r, func(w io.Writer) { fmt.Fprintf(w, "%s: %s, %s\n", r.Out, r.As, plural(int64(r.Layers), "layer")) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.lora, "lora", "", "the adapter: `PATH` of a folder or a file")
	f.StringVar(&o.as, "as", "", "`LAYOUT`: "+strings.Join(layouts(), ", "))
	f.StringVar(&o.out, "out", "", "`PATH` to write; it must not exist")
	f.StringVar(&o.model, "model", "", "folder `DIR` of the pipeline to merge into")
	deviceFlag(cmd, &o.device)
	f.StringVar(&o.component, "component", "", "`NAME` of the network in its pipeline (default: transformer, or unet, as the adapter says)")
	return cmd
}

// layouts are what can be written.
func layouts() []string { return []string{"peft", "diffusers", "kohya", "merged"} }

type exportOptions struct{ lora, as, out, model, component, device string }

// exportReport is what --json prints.
type exportReport struct {
	Out    string `json:"out"`
	As     string `json:"as"`
	Layers int    `json:"layers"`
}

func (o *exportOptions) check(cmd *cobra.Command) error {
	var wrong []string
	must := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	must(o.lora != "", "--lora is missing: the adapter")
	must(o.out != "", "--out is missing: what to write")
	must(slices.Contains(layouts(), o.as), "--as %q: one of %s", o.as, strings.Join(layouts(), ", "))
	reads := o.as == "merged" || o.as == "kohya"
	must(!reads || o.model != "", "--as %s needs --model, the folder of a pipeline", o.as)
	must(reads || o.model == "", "--model is for --as merged and --as kohya")
	must(o.as == "merged" || !cmd.Flags().Changed("device"), "--device is for --as merged: the other layouts compute nothing")
	must(o.as != "diffusers" && o.as != "kohya" || strings.HasSuffix(o.out, ".safetensors"), "--out %s: %s reads one file; name one that ends in .safetensors", o.out, o.as)
	if o.out != "" {
		_, err := os.Lstat(o.out)
		must(errors.Is(err, os.ErrNotExist), "--out %s: it exists already", o.out)
		info, err := os.Stat(filepath.Dir(o.out))
		must(err == nil && info.IsDir(), "--out %s: there is no folder %s", o.out, filepath.Dir(o.out))
	}
	if len(wrong) > 0 {
		return usagef("%s\nhint: see '%s --help'", strings.Join(wrong, "\n"), cmd.CommandPath())
	}
	return nil
}

func (o *exportOptions) run() (*exportReport, error) {
	r := &exportReport{Out: o.out, As: o.as}
	if o.as == "merged" {
		be, err := openDevice(o.device)
		if err != nil {
			return nil, err
		}
		defer be.Close()
		var model string
		if model, err = assets.Resolve(o.model); err != nil {
			return nil, usageError{err}
		}
		r.Layers, err = pipeline.Merge(model, o.lora, o.out, tensor.NewPool(be))
		return r, err
	}
	a, component, err := o.open()
	if err != nil {
		return nil, err
	}
	defer a.Close()
	r.Layers = len(a.Modules())
	switch o.as {
	case "peft":
		return r, a.Copy(o.out)
	case "kohya":
		network, err := o.kohya()
		if err != nil {
			return nil, err
		}
		return r, a.CopyKohya(o.out, network)
	case "diffusers":
		return r, a.CopyDiffusers(o.out, component)
	}
	panic("a layout without a way to write it: " + o.as)
}

// kohya is the network whose names the file gets: one path is a layer of FLUX and of Stable Diffusion 3.
func (o *exportOptions) kohya() (peft.Network, error) {
	dir, err := assets.Resolve(o.model)
	if err != nil {
		return 0, usageError{err}
	}
	class, err := pipeline.ClassOf(dir)
	if err != nil {
		return 0, usageError{err}
	}
	switch class {
	case "StableDiffusionPipeline", "StableDiffusionXLPipeline":
		return peft.UNet, nil
	case "FluxPipeline":
		return peft.FLUX, nil
	}
	return 0, usagef("--as kohya: diffusers reads this layout of U-Nets and of FLUX, not of a %s\nhint: --as diffusers is what ComfyUI reads for it", class)
}

// open opens the adapter as the named component's, or as whichever it is.
func (o *exportOptions) open() (*peft.Adapter, string, error) {
	if o.component != "" {
		a, err := peft.Open(o.lora, o.component)
		return a, o.component, err
	}
	a, err := peft.Open(o.lora, "transformer")
	if err == nil {
		return a, "transformer", nil
	}
	if b, err := peft.Open(o.lora, "unet"); err == nil {
		return b, "unet", nil
	}
	return nil, "", err
}
