package sample

import (
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/cmd/darkroom/devices"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/inputs"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/pictures"
	"github.com/darkroom-rl/darkroom/trainer/trained"
)

// runFlags is --run: a run's model with what was trained in it, sampled as the run's evaluations are, but for what
// flags say.
type runFlags struct {
	run, weights string
	from         *trained.Run // nil without --run
}

func (s *runFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.run, "run", "", "`RUN` or checkpoint, in place of --model: its model with what was trained, sampled as the run evaluates")
	inputs.WeightsFlag(cmd, &s.weights)
}

// check finds what is wrong with the flags alone.
func (o *options) checkRun(cmd *cobra.Command, must func(ok bool, format string, args ...any)) {
	must(o.model != "" || o.run != "", "--model is missing: the folder of a pipeline; or --run, the folder of a run")
	must(o.run == "" || o.lora == "", "--run and --lora: a run has what it trained; one of them")
	must(o.run != "" || !cmd.Flags().Changed("weights"), "--weights is of a run, and there is no --run")
	must(inputs.KnownWeights(o.weights), "--weights %q: evaluated, current or ema", o.weights)
}

// take opens the run, and says what the network's weights are read from beside the folder's; nil: nothing.
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

// asEvaluated takes what the run says where flags say nothing.
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
	turn := experiment.Turn{Experiment: o.from.Experiment, Evaluates: true}
	if !given("frames") {
		o.frames = turn.Frames()
	}
	if !given("guidance-2") {
		o.second = o.from.Sampler.Second
	}
	if sizes := turn.Asked(); len(sizes) > 0 && !given("width") && !given("height") {
		o.width, o.height = sizes[0][0], sizes[0][1]
	}
}

// evaluated are the rows of the run's evaluations.
func (plan *plan) evaluated(r *trained.Run) error {
	s := r.Sampler
	s.EvalSteps = plan.steps
	turn, err := r.Evaluating(s)
	if err == nil {
		turn, err = turn.Of(plan.At.Tokens)
	}
	plan.Rows, plan.Times, plan.solver = turn.Rows, turn.Schedule.Timesteps, s.EvalSolver
	plan.draws = slices.ContainsFunc(plan.Rows, sde.Row.Stochastic)
	return err
}

// guideAs is the run's guidance, of another scale.
func (s *runFlags) guideAs(scale float64) pipeline.Guidance {
	sampler := s.from.Sampler
	sampler.Guidance = scale
	return pictures.GuidanceOf(sampler)
}
