// Package sample is 'darkroom sample': pictures and clips of a model's folder or a run.
package sample

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/darkroom-rl/darkroom/cmd/darkroom/devices"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/inputs"
	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/pictures"
	"github.com/darkroom-rl/darkroom/trainer/trained"
	"github.com/darkroom-rl/darkroom/video"
	"github.com/spf13/cobra"
)

// Command is 'darkroom sample'.
func Command() *cobra.Command {
	o := options{n: 1, dtype: "bf16", noise: 0.7, clipOptions: clipOptions{fps: 16}}
	cmd := &cobra.Command{
		Use:   "sample --model DIR|--run RUN --prompt TEXT --out FILE|DIR/",
		Short: "Make pictures or clips with a model's folder",
		Long: `Make pictures with a model's folder in the hub's layout (StableDiffusion3Pipeline,
FluxPipeline, StableDiffusionPipeline, StableDiffusionXLPipeline, QwenImagePipeline). Several pictures
become one sheet, a row a prompt where there are several. The PNG's text says how to
make it again: the same settings give the same pixels, on any x86-64 machine. With
--out DIR/ every picture is a file of its own: DIR/000.png and so on.

--guidance combines two outputs, with and without the prompt; where the network
reads a scale itself (FLUX.1-dev) it is the input, and --true-cfg with
--negative combines two outputs besides. A stochastic solver (flow-sde, dance, ...)
takes every step but the last, so that no noise is left.

--run RUN takes the model of a run with what was trained in it, from the newest checkpoint, and
samples as the run's evaluations do (steps, guidance, solver); flags say otherwise, and --weights
ema takes the moving average.

--model may name one file of weights, a checkpoint of Stable Diffusion 1.5, SDXL, Stable Diffusion 3 or FLUX as their
authors and ComfyUI have it: --base then names a folder of the same architecture, whose settings and tokenizers count.

FluxKontextPipeline, QwenImageEditPipeline and QwenImageEditPlusPipeline change pictures: --image names
one, or several where the network reads several, and the size follows as upstream has it.

WanPipeline and WanImageToVideoPipeline make clips: --out names a GIF, a PNG (which is animated), a Y4M,
or what ffmpeg writes (.mp4, ...); several clips play side by side. --image begins a clip, and
--last-image ends it, where the network reads them. Wan 2.2's A14B has two networks, each with its scale:
--guidance and --guidance-2.`,
		Example: "  darkroom sample --run runs/maps --prompt 'a map of an island' --n 4 --out maps.png\n" +
			"  darkroom sample --model embed:tiny-sd3 --prompt 'a red circle left of a blue square' --n 9 --out a.png\n" +
			"  darkroom sample --model stable-diffusion-3.5-medium --prompt 'a lighthouse at dawn' --out a.png\n" +
			"  darkroom sample --model flux-dev --prompt 'a map of an island' --n 4 --seed 7 --steps 20 --lora maps.safetensors --out maps.png\n" +
			"  darkroom sample --model dreamshaper.safetensors --base stable-diffusion-v1-5 --prompt 'a lighthouse at dawn' --out a.png\n" +
			"  darkroom sample --model wan2.1-t2v-1.3b --prompt 'a cat runs over a bridge' --frames 33 --width 416 --height 240 --out cat.gif\n" +
			"  darkroom sample --model qwen-image-edit --image a.png --prompt 'make it night' --out night.png",
		Args: exits.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(cmd); err != nil {
				return err
			}
			r, err := o.sample(cmd)
			if err != nil {
				return err
			}
			return console.Emit(cmd, r, r.write)
		},
	}
	devices.Flag(cmd, &o.device)
	o.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.model, "model", "", "folder `DIR` of a whole pipeline, or embed:tiny-sd3, which is part of the program")
	f.StringVar(&o.base, "base", "", "where --model is one file of weights: a folder `DIR` of the same architecture with settings and tokenizers")
	f.StringArrayVar(&o.prompts, "prompt", nil, "`TEXT` to draw; may be given several times")
	f.StringVar(&o.negative, "negative", "", "`TEXT` to keep away from")
	f.StringVar(&o.out, "out", "", "`FILE` to write: a PNG, for clips also .gif, .y4m, .mp4, ...; or a folder, with / at its end, for single ones")
	f.StringVar(&o.latents, "latents", "", "start at the noise in `FILE` (safetensors, \"latents\" [n, channels, rows, columns]); where there is no such file, write the noise to it")
	f.IntVar(&o.n, "n", o.n, "pictures of each prompt")
	f.Uint64Var(&o.seed, "seed", 0, "which pictures: a seed, a prompt's number and a picture's number name all noise")
	f.IntVar(&o.steps, "steps", 0, "of the solver (default: the pipeline's, or the run's)")
	f.Float64Var(&o.guidance, "guidance", 0, "scale; 1 or less samples without (default: the pipeline's); Z-Image's is diffusers' and 1 more")
	f.Float64Var(&o.trueCFG, "true-cfg", 0, "classifier-free guidance, for networks that take --guidance as an input")
	f.Float64Var(&o.most, "cfg-normalization", 0, "largest length of what guidance combines, as a multiple `K` of the conditional output's (Z-Image); 0: any")
	f.StringVar(&o.solver, "solver", "", "`NAME` of a solver, see 'darkroom list solvers' (default: the folder's)")
	f.Float64Var(&o.noise, "noise", o.noise, "of solvers that draw: eta")
	f.IntVar(&o.width, "width", 0, "pixels (default: the model's)")
	f.IntVar(&o.height, "height", 0, "pixels (default: the model's)")
	f.IntVar(&o.frames, "frames", 0, "of a clip: 1 more than a multiple of 4 (default: the model's)")
	f.IntVar(&o.fps, "fps", o.fps, "frames a second that are written")
	f.StringArrayVar(&o.images, "image", nil, "`FILE` of the picture that a clip begins with, or that an edit changes; may be given several times where the network reads several")
	f.StringVar(&o.last, "last-image", "", "`FILE` of the picture that a clip ends with")
	f.Float64Var(&o.second, "guidance-2", 0, "scale of the second network, of pipelines that have two; each follows its own, where diffusers guides neither at --guidance 1")
	f.StringVar(&o.lora, "lora", "", "adapter: a folder of PEFT's, or a folder or file of diffusers'")
	f.StringVar(&o.dtype, "dtype", o.dtype, "bf16 or f32: what networks compute in")
	f.IntVar(&o.textLength, "text-length", 0, "tokens that a T5 encoder reads, up to 512; 0 disables the T5 text (default: the pipeline's)")
	f.IntSliceVar(&o.textLayers, "text-layers", nil, "layers of FLUX.2's text encoder whose states are read (default: 9,18,27)")
	f.StringVar(&o.cache, "cache", "", "folder `DIR` that keeps text embeddings")
	f.StringVar(&o.tile, "tile", "", "decode large pictures in overlapping tiles of `PIXELS` a side, which takes little memory and changes pixels; 'model' for the autoencoder's own")
	f.IntVar(&o.batch, "batch", 0, "pictures in a run of the network (default: by their size)")
	return cmd
}

// options are the flags.
type options struct {
	model, base, negative, out, solver, lora, dtype, cache, tile, latents string
	prompts                                                               []string
	device                                                                string
	n, steps, width, height, textLength, sourceArea, batch                int
	textLayers                                                            []int
	sourceSizes                                                           [][2]int // of the pictures that an edit is made of
	seed                                                                  uint64
	guidance, trueCFG, most, noise                                        float64
	clipOptions
	runFlags

	guided, noised bool // whether the flags were given
	precision      pipeline.Precision
	tileSide       int
}

// single reports whether every picture is a file of its own.
func (o *options) single() bool {
	return strings.HasSuffix(o.out, "/") || strings.HasSuffix(o.out, string(filepath.Separator))
}

// maxPictures of one call: a sheet of more is not looked at.
const maxPictures = 1024

// check finds all that is wrong with the flags alone.
func (o *options) check(cmd *cobra.Command) error {
	var wrong []string
	must := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	o.guided, o.noised = cmd.Flags().Changed("guidance"), cmd.Flags().Changed("noise")
	o.checkRun(cmd, must)
	must(len(o.prompts) > 0, "--prompt is missing")
	for _, p := range append([]string{o.negative}, o.prompts...) {
		must(utf8.ValidString(p), "%q is not UTF-8, in which prompts are written", p)
	}
	must(o.out != "", "--out is missing: the PNG file to write")
	o.clipOptions.check(must)
	if o.out != "" {
		ending := strings.ToLower(filepath.Ext(o.out))
		must(o.single() || ending == ".png" || slices.Contains(video.Endings(), ending), "--out %s: pictures are written as PNG; name a file that ends in .png, or a folder, with / at its end", o.out)
		parent := filepath.Dir(filepath.Clean(o.out))
		info, err := os.Stat(parent)
		must(err == nil && info.IsDir(), "--out %s: there is no folder %s", o.out, parent)
		info, err = os.Stat(o.out)
		must(err != nil || info.IsDir() == o.single(), "--out %s is a folder: write %s/ for single pictures in it", o.out, o.out)
	}
	must(o.n >= 1 && o.n*len(o.prompts) <= maxPictures, "--n %d: 1 to %d pictures in all", o.n, maxPictures)
	must(o.steps >= 0 && o.steps <= 1000 && !(o.steps == 0 && cmd.Flags().Changed("steps")), "--steps %d: 1 to 1000", o.steps)
	must(o.guidance >= 0 && o.guidance <= 1000, "--guidance %v: 0 to 1000", o.guidance)
	must(o.most >= 0 && o.most <= 100, "--cfg-normalization %v: 0 to 100", o.most)
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
		return exits.Usagef("%s\nhint: see '%s --help'", strings.Join(wrong, "\n"), cmd.CommandPath())
	}
	return nil
}

// runFlags is --run: a run's model with its trained weights, sampled as the run's evaluations are, but for given
// flags.
type runFlags struct {
	run, weights string
	from         *trained.Run // nil without --run
}

func (s *runFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.run, "run", "", "`RUN` or checkpoint, in place of --model: its model with what was trained, sampled as the run evaluates")
	inputs.WeightsFlag(cmd, &s.weights)
}

// checkRun finds mistakes of the flags alone.
func (o *options) checkRun(cmd *cobra.Command, must func(ok bool, format string, args ...any)) {
	must(o.model != "" || o.run != "", "--model is missing: the folder of a pipeline; or --run, the folder of a run")
	must(o.run == "" || o.lora == "", "--run and --lora: a run has what it trained; one of them")
	must(o.run != "" || !cmd.Flags().Changed("weights"), "--weights is of a run, and there is no --run")
	must(inputs.KnownWeights(o.weights), "--weights %q: evaluated, current or ema", o.weights)
}

// take opens the run, and returns the values that replace the folder's weights; nil: nothing.
func (o *options) take(given func(flag string) bool, pool *tensor.Pool, log io.Writer) (values *trained.Values, err error) {
	if o.run == "" {
		return nil, nil
	}
	if o.from, err = inputs.OpenRun(o.run, o.model, &o.weights, log); err != nil {
		return nil, err
	}
	if !o.from.Modality().Sampled {
		return nil, exits.Usagef("--run %s: it trained a model that answers, and makes no pictures\nhint: darkroom ask --run %s --image FILE 'QUESTION'", o.run, o.run)
	}
	o.model = o.from.Model
	o.asEvaluated(given)
	if o.from.Adapted() {
		o.lora, err = o.from.Adapter(trained.Which(o.weights))
		return nil, inputs.AsUsage(err)
	}
	dry, err := devices.Dry()
	if err != nil {
		return nil, err
	}
	values, err = o.from.Values(trained.Which(o.weights), dry, pool)
	return values, inputs.AsUsage(err)
}

// asEvaluated takes the run's values for flags that are not given.
func (o *options) asEvaluated(given func(flag string) bool) {
	m := o.from.Experiment.Model
	if !given("dtype") {
		o.precision = map[string]pipeline.Precision{"bf16": pipeline.BF16, "f32": pipeline.F32}[m.Precision]
	}
	if !given("text-length") {
		o.textLength = m.TextLength
	}
	if !given("text-layers") {
		o.textLayers = m.TextLayers
	}
	o.sourceArea = m.SourceArea
	if !given("base") {
		o.base = m.Base
	}
	if !given("negative") {
		o.negative = o.from.Sampler.Negative
	}
	settings := experiment.Settings{Experiment: o.from.Experiment, Evaluates: true}
	if !given("frames") {
		o.frames = settings.Frames()
	}
	if !given("guidance-2") {
		o.second = o.from.Sampler.Second
	}
	if sizes := settings.PictureSizes(); len(sizes) > 0 && !given("width") && !given("height") {
		o.width, o.height = sizes[0][0], sizes[0][1]
	}
}

// evaluated are the rows of the run's evaluations.
func (plan *plan) evaluated(r *trained.Run) error {
	s := r.Sampler
	s.EvalSteps = plan.steps
	settings, err := r.Evaluating(s)
	if err == nil {
		settings, err = settings.Of(plan.At.Tokens)
	}
	plan.Rows, plan.Times, plan.solver = settings.Rows, settings.Schedule.Timesteps, s.EvalSolver
	plan.draws = slices.ContainsFunc(plan.Rows, sde.Row.Stochastic)
	return err
}

// guideAs is the run's guidance, of another scale.
func (s *runFlags) guideAs(scale float64) pipeline.Guidance {
	sampler := s.from.Sampler
	sampler.Guidance = scale
	return pictures.GuidanceOf(sampler)
}
