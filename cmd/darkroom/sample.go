package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/vision"
)

func sampleCommand() *cobra.Command {
	o := sampleOptions{n: 1, dtype: "bf16", noise: 0.7}
	cmd := &cobra.Command{
		Use:   "sample --model DIR --prompt TEXT --out FILE.png",
		Short: "Make pictures with a model's folder",
		Long: `Make pictures with a model's folder in the hub's layout (StableDiffusion3Pipeline,
FluxPipeline, StableDiffusionPipeline). Several pictures become one sheet, a row a
prompt where there are several. The PNG's text says how to make it again: the
same settings give the same pixels, on any x86-64 machine.

--guidance combines two outputs, with and without the prompt; where the network
reads a scale itself (FLUX.1-dev) it is told that scale, and --true-cfg with
--negative combines two outputs besides. A solver that draws (flow-sde, dance, ...)
takes every step but the last, which leaves no noise.`,
		Example: "  darkroom sample --model embed:tiny-sd3 --prompt 'a red circle left of a blue square' --n 9 --out a.png\n" +
			"  darkroom sample --model stable-diffusion-3.5-medium --prompt 'a lighthouse at dawn' --out a.png\n" +
			"  darkroom sample --model flux-dev --prompt 'a map of an island' --n 4 --seed 7 --steps 20 --lora runs/maps/checkpoints/000060 --out maps.png",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(cmd); err != nil {
				return err
			}
			r, err := o.run(cmd)
			if err != nil {
				return err
			}
			return emit(cmd, r, r.write)
		},
	}
	deviceFlag(cmd, &o.device)
	f := cmd.Flags()
	f.StringVar(&o.model, "model", "", "folder `DIR` of a whole pipeline, or embed:tiny-sd3, which is part of the program")
	f.StringArrayVar(&o.prompts, "prompt", nil, "`TEXT` to draw; may be given several times")
	f.StringVar(&o.negative, "negative", "", "`TEXT` to keep away from")
	f.StringVar(&o.out, "out", "", "`FILE.png` to write")
	f.IntVar(&o.n, "n", o.n, "pictures of each prompt")
	f.Uint64Var(&o.seed, "seed", 0, "which pictures: a seed, a prompt's number and a picture's number name all noise")
	f.IntVar(&o.steps, "steps", 0, "of the solver (default: the pipeline's)")
	f.Float64Var(&o.guidance, "guidance", 0, "scale; 1 or less samples without (default: the pipeline's)")
	f.Float64Var(&o.trueCFG, "true-cfg", 0, "scale of two outputs where --guidance is told to the network")
	f.StringVar(&o.solver, "solver", "", "`NAME` of a solver, see 'darkroom list solvers' (default: the folder's)")
	f.Float64Var(&o.noise, "noise", o.noise, "of solvers that draw: eta")
	f.IntVar(&o.width, "width", 0, "pixels (default: the model's)")
	f.IntVar(&o.height, "height", 0, "pixels (default: the model's)")
	f.StringVar(&o.lora, "lora", "", "adapter: a folder of PEFT's, or a folder or file of diffusers'")
	f.StringVar(&o.dtype, "dtype", o.dtype, "bf16 or f32: what networks compute in")
	f.IntVar(&o.textLength, "text-length", 0, "tokens that a T5 encoder reads, up to 512; 0 where there is none, nor zeros in its place (default: the pipeline's)")
	f.StringVar(&o.cache, "cache", "", "folder `DIR` that keeps text embeddings")
	f.StringVar(&o.tile, "tile", "", "decode large pictures in overlapping tiles of `PIXELS` a side, which takes little memory and changes pixels; 'model' for the autoencoder's own")
	f.IntVar(&o.batch, "batch", 0, "pictures in a run of the network (default: by their size)")
	return cmd
}

// sampleOptions are the flags.
type sampleOptions struct {
	model, negative, out, solver, lora, dtype, cache, tile string
	prompts                                                []string
	device                                                 string
	n, steps, width, height, textLength, batch             int
	seed                                                   uint64
	guidance, trueCFG, noise                               float64

	guided, noised bool // whether the flags were given
	precision      pipeline.Precision
	tileSide       int
}

// maxPictures of one call: a sheet of more is not looked at.
const maxPictures = 1024

// check finds all that is wrong with the flags alone.
func (o *sampleOptions) check(cmd *cobra.Command) error {
	var wrong []string
	must := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	o.guided, o.noised = cmd.Flags().Changed("guidance"), cmd.Flags().Changed("noise")
	must(o.model != "", "--model is missing: the folder of a pipeline")
	must(len(o.prompts) > 0, "--prompt is missing")
	must(o.out != "", "--out is missing: the PNG file to write")
	if o.out != "" {
		must(strings.EqualFold(filepath.Ext(o.out), ".png"), "--out %s: pictures are written as PNG; name a file that ends in .png", o.out)
		info, err := os.Stat(filepath.Dir(o.out))
		must(err == nil && info.IsDir(), "--out %s: there is no folder %s", o.out, filepath.Dir(o.out))
		info, err = os.Stat(o.out)
		must(err != nil || !info.IsDir(), "--out %s is a folder", o.out)
	}
	must(o.n >= 1 && o.n*len(o.prompts) <= maxPictures, "--n %d: 1 to %d pictures in all", o.n, maxPictures)
	must(o.steps >= 0 && o.steps <= 1000 && !(o.steps == 0 && cmd.Flags().Changed("steps")), "--steps %d: 1 to 1000", o.steps)
	must(o.guidance >= 0 && o.guidance <= 1000, "--guidance %v: 0 to 1000", o.guidance)
	must(o.trueCFG >= 0 && o.trueCFG <= 1000, "--true-cfg %v: 0 to 1000", o.trueCFG)
	must(o.noise >= 0 && o.noise <= 10, "--noise %v: 0 to 10", o.noise)
	must(o.batch >= 0, "--batch %d: 1 or more", o.batch)
	must(o.textLength >= 0 && o.textLength <= 512, "--text-length %d: 0 to 512", o.textLength)
	if o.textLength == 0 && cmd.Flags().Changed("text-length") {
		o.textLength = pipeline.NoText
	}
	switch o.dtype {
	case "bf16":
		o.precision = pipeline.BF16
	case "f32", "fp32":
		o.precision = pipeline.F32
	default:
		must(false, "--dtype %q: bf16 or f32", o.dtype)
	}
	if o.tile == "model" {
		o.tileSide = pipeline.UsualTile
	} else if o.tile != "" {
		var err error
		o.tileSide, err = strconv.Atoi(o.tile)
		must(err == nil && o.tileSide >= 1, "--tile %q: a number of pixels, or 'model'", o.tile)
	}
	must(o.solver != "" || !o.noised, "--noise is for solvers that draw; name one with --solver")
	if o.solver != "" {
		_, err := solverNamed(o.solver)
		must(err == nil, "--solver: %v", err)
	}
	if len(wrong) > 0 {
		return usagef("%s\nhint: see '%s --help'", strings.Join(wrong, "\n"), cmd.CommandPath())
	}
	return nil
}

// sampleReport is what --json prints.
type sampleReport struct {
	Out      string            `json:"out"`
	Width    int               `json:"width"` // of one picture
	Height   int               `json:"height"`
	Pictures int               `json:"pictures"`
	Settings map[string]string `json:"settings"`
	Cut      []cutText         `json:"cut,omitempty"`
	Seconds  sampleSeconds     `json:"seconds"`
	Memory   sampleMemory      `json:"memory"`

	order []vision.Setting
}

// cutText is the end of a prompt that an encoder did not read.
type cutText struct {
	Prompt  string `json:"prompt"`
	Encoder int    `json:"encoder"`
	Tokens  int    `json:"tokens"` // that it reads
	Text    string `json:"text"`
}

type sampleSeconds struct {
	Texts   float64 `json:"texts"`
	Load    float64 `json:"load"`
	Sample  float64 `json:"sample"`
	Decode  float64 `json:"decode"`
	PerStep float64 `json:"per_picture_step"`
}

// sampleMemory is resident memory at most, as it was predicted before any weight was read
// and as it was. A system that does not say gives 0.
type sampleMemory struct {
	Peak      int64         `json:"peak_bytes"`
	Predicted int64         `json:"predicted_bytes"`
	Need      pipeline.Need `json:"need"` // beside what the program itself takes
}

func (r *sampleReport) write(w io.Writer) {
	fmt.Fprintf(w, "%s: %s of %d x %d, %.1f s (%.3f s a picture and step)\n", r.Out, plural(int64(r.Pictures), "picture"), r.Width, r.Height,
		r.Seconds.Texts+r.Seconds.Load+r.Seconds.Sample+r.Seconds.Decode, r.Seconds.PerStep)
	if r.Memory.Peak > 0 {
		fmt.Fprintf(w, "memory: at most %s, %s were predicted\n", bytesText(r.Memory.Peak), bytesText(r.Memory.Predicted))
	}
	for _, c := range r.Cut {
		fmt.Fprintf(w, "note: encoder %d reads %d tokens; this end of the prompt was cut off: %s\n", c.Encoder, c.Tokens, printable(c.Text))
	}
}

// run makes the pictures.
func (o *sampleOptions) run(cmd *cobra.Command) (*sampleReport, error) {
	be, err := openDevice(o.device)
	if err != nil {
		return nil, err
	}
	defer be.Close()
	dir, err := assets.Resolve(o.model)
	if err != nil {
		return nil, usageError{err}
	}
	p, err := pipeline.Open(dir, pipeline.Options{Pool: tensor.NewPool(be), Precision: o.precision, TextLength: o.textLength, Cache: o.cache, Tile: o.tileSide})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	plan, err := o.plan(p)
	if err != nil {
		return nil, usageError{err}
	}
	return o.develop(cmd.Context(), p, plan, cmd.ErrOrStderr())
}

// develop encodes, samples, decodes and writes.
func (o *sampleOptions) develop(ctx context.Context, p *pipeline.Pipeline, plan *samplePlan, log io.Writer) (*sampleReport, error) {
	r := &sampleReport{Out: o.out, Width: plan.At.Width, Height: plan.At.Height, Pictures: o.n * len(o.prompts), Settings: map[string]string{}}
	r.order = o.settings(p, plan)
	for _, s := range r.order {
		r.Settings[s.Key] = s.Value
	}
	if err := o.predict(r, p, plan, log); err != nil {
		return nil, err
	}
	clock := time.Now()
	lap := func(into *float64) { *into, clock = time.Since(clock).Seconds(), time.Now() }
	texts, err := p.Encode(append(append([]string(nil), o.prompts...), o.negative)...)
	if err != nil {
		return nil, err
	}
	lap(&r.Seconds.Texts)
	if o.lora != "" {
		_, err = p.AddLoRA(o.lora)
	} else {
		_, err = p.Denoiser()
	}
	if err != nil {
		return nil, err
	}
	lap(&r.Seconds.Load)
	negative := texts[len(texts)-1]
	var pictures []pipeline.Picture
	for i, text := range texts[:len(texts)-1] {
		r.cuts(text)
		for j := range o.n {
			pic := pipeline.Picture{Text: text, Negative: negative}
			pic.StartKey, pic.StepKey = pipeline.Draws(o.seed, i, j)
			pictures = append(pictures, pic)
		}
	}
	bar := newProgress(log, "sampling")
	plan.Progress = bar.set
	tracks, err := p.Sample(ctx, pictures, plan.Sampler)
	bar.end()
	if err != nil {
		return nil, err
	}
	lap(&r.Seconds.Sample)
	r.Seconds.PerStep = r.Seconds.Sample / float64(len(pictures)*len(plan.Rows))
	if err := p.FreeDenoiser(); err != nil {
		return nil, err
	}
	images, err := decodeTracks(ctx, p, tracks, plan.At)
	if err != nil {
		return nil, err
	}
	lap(&r.Seconds.Decode)
	r.Memory.Peak = int64(peakMiB()) << 20
	return r, o.writePicture(images, r.order)
}

// predict says what memory will be needed, and warns where there is not as much.
func (o *sampleOptions) predict(r *sampleReport, p *pipeline.Pipeline, plan *samplePlan, log io.Writer) error {
	path, err := isa.Choose()
	if err != nil {
		return err
	}
	resetPeak()
	before := int64(peakMiB()) << 20
	need, err := p.Need(pipeline.Work{At: plan.At, Guidance: plan.Guidance, Pictures: r.Pictures, Batch: plan.Batch, LoRA: o.lora, Free: true}, cpu.NewDry(cpu.Options{Path: path}))
	if err != nil {
		return err
	}
	resetPeak()
	r.Memory.Need, r.Memory.Predicted = need, before+need.Peak()
	if free := int64(memory().Available); free > 0 && need.Peak() > free {
		fmt.Fprintf(log, "warning: about %s will be needed, and %s are free\n", bytesText(need.Peak()), bytesText(free))
	}
	return nil
}

// cuts notes what encoders did not read.
func (r *sampleReport) cuts(t *pipeline.Text) {
	for i, cut := range t.Cut {
		if cut != "" {
			r.Cut = append(r.Cut, cutText{Prompt: t.Prompt, Encoder: i + 1, Tokens: len(t.IDs[i]), Text: cut})
		}
	}
}

func decodeTracks(ctx context.Context, p *pipeline.Pipeline, tracks []pipeline.Track, at pipeline.Shape) ([]*vision.Image, error) {
	var images []*vision.Image
	for _, t := range tracks {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		raw, err := p.Decode(t.Final, at)
		if err != nil {
			return nil, err
		}
		m, err := vision.FromFloats(raw, at.Width, at.Height, vision.Signed, vision.ChannelsLast)
		if err != nil {
			return nil, err
		}
		images = append(images, m)
	}
	return images, nil
}

// writePicture writes a picture, or a sheet of several.
func (o *sampleOptions) writePicture(images []*vision.Image, settings []vision.Setting) error {
	if len(images) == 1 {
		return vision.WriteFile(o.out, images[0], settings...)
	}
	sheet := vision.Sheet{}
	if len(o.prompts) > 1 && o.n > 1 {
		sheet.Columns = o.n
	}
	m, err := sheet.Draw(images)
	if err != nil {
		return err
	}
	return vision.WriteFile(o.out, m, settings...)
}

// settings are what makes the picture again.
func (o *sampleOptions) settings(p *pipeline.Pipeline, plan *samplePlan) []vision.Setting {
	var all []vision.Setting
	add := func(key, value string) { all = append(all, vision.Setting{Key: key, Value: value}) }
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for i, text := range o.prompts {
		key := "prompt"
		if len(o.prompts) > 1 {
			key = fmt.Sprintf("prompt %d", i+1)
		}
		add(key, strings.ReplaceAll(text, "\x00", ""))
	}
	add("negative", strings.ReplaceAll(o.negative, "\x00", ""))
	add("model", o.model)
	add("pipeline", p.Class())
	if o.lora != "" {
		add("lora", o.lora)
	}
	add("n", strconv.Itoa(o.n))
	add("seed", strconv.FormatUint(o.seed, 10))
	add("steps", strconv.Itoa(plan.steps))
	add("solver", plan.solver)
	if plan.draws {
		add("noise", number(o.noise))
	}
	add("guidance", number(plan.guidance))
	if o.trueCFG > 0 {
		add("true-cfg", number(o.trueCFG))
	}
	add("width", strconv.Itoa(plan.At.Width))
	add("height", strconv.Itoa(plan.At.Height))
	add("dtype", o.precision.String())
	if o.tile != "" {
		add("tile", o.tile)
	}
	if o.textLength != 0 {
		add("text-length", strconv.Itoa(max(o.textLength, 0)))
	}
	add("Software", "darkroom "+readBuild().Version)
	return all
}
