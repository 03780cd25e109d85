package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/trained"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// darkroom ask: one conversation with a vision-language model, its tools included, as a run would roll it.

func askCommand() *cobra.Command {
	var o askOptions
	cmd := &cobra.Command{
		Use:   "ask --model DIR|--run RUN --image FILE... QUESTION",
		Short: "Ask a vision-language model about pictures, with its tools",
		Long: `Ask a vision-language model (a folder of Qwen2-VL, Qwen2.5-VL, Qwen3-VL or Qwen3.5, or embed:tiny-vlm) about
pictures, and print the conversation: what it says, which tools it calls, and which pictures come
back, each with its box on the picture of the question.

--run RUN takes the model of a run with what was trained in it, from the newest checkpoint, and plays
by the run's [episode]. Without a run --protocol says how tools are called: darkroom, deepeyes, mini_o3, or
another name that "darkroom list keys" has at episode.protocol. The system message has the
protocol's published instructions; --system TEXT replaces them, and --system '' leaves them out. Decoding is greedy unless --temperature is
given. --json prints the transcript.`,
		Example: "  darkroom ask --model embed:tiny-vlm --image embed:cards/1 'what is written in the frame?'\n" +
			"  darkroom ask --run runs/zoom --image map.png 'which street crosses the river?'",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.question = args[0]
			if err := o.check(cmd); err != nil {
				return err
			}
			a, err := o.ask(cmd)
			if err != nil {
				return err
			}
			return emit(cmd, a, a.write)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.model, "model", "", "folder `DIR` of the model, or embed:tiny-vlm (default: the run's)")
	f.StringVar(&o.run, "run", "", "`RUN` or checkpoint: its model with what was trained")
	weightsFlag(cmd, &o.weights)
	f.StringVar(&o.lora, "lora", "", "adapter: a folder of PEFT's")
	f.StringArrayVar(&o.images, "image", nil, "`FILE` of a picture, or embed:cards/N; may be given several times")
	f.StringVar(&o.protocol, "protocol", "", "`NAME` of how tools are called (default: the run's, or deepeyes)")
	f.StringVar(&o.template, "template", "", "`NAME` of a published chat template, or a file that has one, for a folder that has none (default: the run's, or the folder's)")
	f.StringVar(&o.system, "system", "", "`TEXT` of the system message; '': none (default: the run's, or the protocol's instructions)")
	f.IntVar(&o.turns, "turns", 0, "answers of the model at most (default: the run's, or 6)")
	f.IntVar(&o.tokens, "tokens", 0, "most tokens of an answer (default: the run's, or 2048)")
	f.Float64Var(&o.temperature, "temperature", 0, "sampling temperature; 0 is greedy")
	f.Uint64Var(&o.seed, "seed", 0, "random seed of sampling")
	f.StringVar(&o.dtype, "dtype", "", "bf16 or f32: what the network computes in (default: the run's, or bf16)")
	deviceFlag(cmd, &o.device)
	return cmd
}

type askOptions struct {
	model, run, weights, lora, protocol, dtype, device, question string
	system, template                                             string
	says                                                         *string // system, where it is given
	path                                                         string  // of the model, as an experiment names it
	images                                                       []string
	turns, tokens                                                int
	temperature                                                  float64
	seed                                                         uint64
}

func (o *askOptions) check(cmd *cobra.Command) error {
	var wrong []string
	must := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	must(o.model != "" || o.run != "", "--model is missing: the folder of a vision-language model; or --run, the folder of a run")
	must(o.run == "" || o.lora == "", "--run and --lora: a run has what it trained; one of them")
	must(o.run != "" || !cmd.Flags().Changed("weights"), "--weights is of a run, and there is no --run")
	must(isWhich(o.weights), "--weights %q: evaluated, current or ema", o.weights)
	must(o.question != "" && utf8.ValidString(o.question), "the question is empty, or not UTF-8")
	must(o.turns >= 0 && o.turns <= 1e4, "--turns %d: 1 to 10000", o.turns)
	must(o.tokens >= 0 && o.tokens <= 1e6, "--tokens %d: 1 to 1000000", o.tokens)
	must(o.temperature >= 0 && o.temperature <= 100, "--temperature %v: 0 to 100", o.temperature)
	must(o.dtype == "" || o.dtype == "bf16" || o.dtype == "f32", "--dtype %q: bf16 or f32", o.dtype)
	if o.says = nil; cmd.Flags().Changed("system") {
		o.says = &o.system
	}
	if len(wrong) > 0 {
		return usagef("%s\nhint: see '%s --help'", strings.Join(wrong, "\n"), cmd.CommandPath())
	}
	return nil
}

// asked is the model's folder and how it plays.
func (o *askOptions) asked(log io.Writer) (*trained.Run, *experiment.Episode, error) {
	e := &experiment.Episode{}
	e.SetDefaults()
	var r *trained.Run
	if o.run != "" {
		var err error
		if r, err = openRun(o.run, o.model, &o.weights, log); err != nil {
			return nil, nil, err
		}
		if r.Episode == nil {
			return nil, nil, usagef("--run %s: it trained a model that makes pictures, and answers nothing\nhint: darkroom sample --run %s --prompt TEXT --out FILE", o.run, o.run)
		}
		*e = *r.Episode
		o.template = cmp.Or(o.template, r.Experiment.Model.Template)
		if o.path = o.model; o.path == "" {
			o.path = r.Experiment.Model.Path
		}
		if o.model = r.Model; o.dtype == "" {
			o.dtype = r.Experiment.Model.Precision
		}
	}
	if o.says != nil {
		e.System = o.says
	}
	if r == nil {
		o.path = o.model
	}
	if o.protocol != "" {
		e.Protocol, e.Tools = o.protocol, nil
	}
	if o.protocol != "" && o.protocol != "darkroom" {
		e.Frame = "shown"
	}
	e.Turns, e.TurnTokens = cmp.Or(o.turns, e.Turns), cmp.Or(o.tokens, e.TurnTokens)
	e.Sampling.TopK, e.Sampling.Temperature = 1, 1
	if o.temperature > 0 {
		e.Sampling.TopK, e.Sampling.Temperature = 0, o.temperature
	}
	return r, e, nil
}

// ask plays one episode.
func (o *askOptions) ask(cmd *cobra.Command) (a *askAnswer, err error) {
	r, e, err := o.asked(cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	protocol, err := e.Play()
	if err != nil {
		return nil, usageOf(err)
	}
	pictures, err := o.pictures()
	if err != nil {
		return nil, usageOf(err)
	}
	dir, err := assets.Resolve(o.model)
	if err != nil {
		return nil, usageOf(err)
	}
	be, err := openDevice(o.device)
	if err != nil {
		return nil, err
	}
	defer be.Close()
	pool := tensor.NewPool(be)
	speaker, free, err := o.speaker(r, dir, pool)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, free()) }()
	p, leave, err := o.policy(cmd.Context(), speaker, protocol, e)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, leave()) }()
	p.Parallel = 1
	p.Ask = func(int) (conversations.Question, error) {
		q := conversations.Asked(o.question, pictures...)
		return q.Told(e, o.path, speaker.Template)
	}
	samples, err := p.Roll(trainer.Current, []trainer.Key{{}})
	if err != nil {
		return nil, err
	}
	if err := context.Cause(cmd.Context()); err != nil {
		return nil, err
	}
	said := conversations.EpisodeOf(samples[0])
	if said.Lost != nil {
		return nil, said.Lost
	}
	return newAnswer(o.question, said), nil
}

// policy is who answers, by the tools that the experiment names; leave closes these.
func (o *askOptions) policy(ctx context.Context, s *conversations.Speaker, protocol *tools.Protocol, e *experiment.Episode) (p *conversations.Policy, leave func() error, err error) {
	p = &conversations.Policy{Speaker: s, Protocol: protocol, Limits: e.Limits(), Turn: e.TurnTokens, Sampling: e.Sampling, Exec: e.Exec, Parallel: e.Parallel,
		Draws: trainer.Draws{Root: rng.New(o.seed), Fixed: true}, Context: ctx}
	leave, err = p.Serve(e)
	return p, leave, err
}

// pictures are those of the question: files, or cards that the program draws.
func (o *askOptions) pictures() (all []*vision.Image, err error) {
	for _, name := range o.images {
		if !strings.HasPrefix(name, "embed:") {
			m, err := vision.Open(name, vision.Limits{})
			if err != nil {
				return nil, err
			}
			all = append(all, m)
			continue
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		drawn, err := prompts.Prompt{Meta: prompts.MetaOf(map[string]json.RawMessage{"picture": quoted})}.Pictures("")
		if err != nil {
			return nil, err
		}
		all = append(all, drawn...)
	}
	return all, nil
}

// speaker opens the model with what was trained in it.
func (o *askOptions) speaker(r *trained.Run, dir string, pool *tensor.Pool) (s *conversations.Speaker, free func() error, err error) {
	opened := conversations.Options{Pool: pool, F32: o.dtype == "f32", Template: o.template}
	var values *trained.Values
	if r != nil && r.Adapted() {
		if o.lora, err = r.Adapter(trained.Which(o.weights)); err != nil {
			return nil, nil, usageOf(err)
		}
	} else if r != nil {
		dry, err := dryBackend()
		if err != nil {
			return nil, nil, err
		}
		if values, err = r.Values(trained.Which(o.weights), dry, pool); err != nil {
			return nil, nil, usageOf(err)
		}
		opened.Weights = values.Networks[0]
	}
	if s, err = conversations.Open(dir, opened); err != nil {
		return nil, nil, closing(values, err)
	}
	free = func() error { return closing(values, s.Close()) }
	if o.lora == "" {
		return s, free, nil
	}
	a, err := conversations.Known(s.Params).Open(o.lora)
	if err != nil {
		return nil, nil, errors.Join(usageOf(err), free())
	}
	defer a.Close()
	if _, err = a.AddTo(s.Params); err != nil {
		return nil, nil, errors.Join(usageOf(err), free())
	}
	return s, free, nil
}
