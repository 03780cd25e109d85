// Package ask is 'darkroom ask': one conversation with a vision-language model, its tools included, as a run would
// roll it.
package ask

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/devices"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/inputs"
	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations/chat"
	"github.com/darkroom-rl/darkroom/trainer/conversations/rollout"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/trained"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tools"
	"github.com/spf13/cobra"
)

// Command is 'darkroom ask'.
func Command() *cobra.Command {
	var o Options
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
		Example: "  darkroom ask --model embed:tiny-vlm --image embed:cards/1 'Which digit is on the red card?'\n" +
			"  darkroom ask --run runs/zoom --image map.png 'which street crosses the river?'",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Question = args[0]
			if err := o.Check(cmd); err != nil {
				return err
			}
			a, err := o.ask(cmd)
			if err != nil {
				return err
			}
			return console.Emit(cmd, a, a.write)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Model, "model", "", "folder `DIR` of the model, or embed:tiny-vlm (default: the run's)")
	f.StringVar(&o.Run, "run", "", "`RUN` or checkpoint: its model with what was trained")
	inputs.WeightsFlag(cmd, &o.Weights)
	f.StringVar(&o.Lora, "lora", "", "adapter: a folder of PEFT's")
	f.StringArrayVar(&o.images, "image", nil, "`FILE` of a picture, or embed:cards/N; may be given several times")
	f.StringVar(&o.Protocol, "protocol", "", "`NAME` of how tools are called (default: the run's, darkroom of an embedded model, or deepeyes)")
	f.StringVar(&o.Template, "template", "", "`NAME` of a published chat template, or a file that has one, for a folder that has none (default: the run's, or the folder's)")
	f.StringVar(&o.System, "system", "", "`TEXT` of the system message; '': none (default: the run's, or the protocol's instructions)")
	f.IntVar(&o.Turns, "turns", 0, "answers of the model at most (default: the run's, or 6)")
	f.IntVar(&o.Tokens, "tokens", 0, "most tokens of an answer (default: the run's, or 2048)")
	f.Float64Var(&o.Temperature, "temperature", 0, "sampling temperature; 0 is greedy")
	f.Uint64Var(&o.Seed, "seed", 0, "random seed of sampling")
	f.StringVar(&o.Dtype, "dtype", "", "bf16 or f32: what the network computes in (default: the run's, or bf16)")
	devices.Flag(cmd, &o.Device)
	return cmd
}

// Options are the flags. A suite of questions has them, too.
type Options struct {
	Model, Run, Weights, Lora, Protocol, Dtype, Device, Question string
	System, Template                                             string
	says                                                         *string // system, where it is given
	Path                                                         string  // of the model, as an experiment names it
	images                                                       []string
	Turns, Tokens                                                int
	Temperature                                                  float64
	Seed                                                         uint64
}

// Check finds all that is wrong with the flags alone.
func (o *Options) Check(cmd *cobra.Command) error {
	var wrong []string
	must := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	must(o.Model != "" || o.Run != "", "--model is missing: the folder of a vision-language model; or --run, the folder of a run")
	must(o.Run == "" || o.Lora == "", "--run and --lora: a run has what it trained; one of them")
	must(o.Run != "" || !cmd.Flags().Changed("weights"), "--weights is of a run, and there is no --run")
	must(inputs.KnownWeights(o.Weights), "--weights %q: evaluated, current or ema", o.Weights)
	must(o.Question != "" && utf8.ValidString(o.Question), "the question is empty, or not UTF-8")
	must(o.Turns >= 0 && o.Turns <= 1e4, "--turns %d: 1 to 10000", o.Turns)
	must(o.Tokens >= 0 && o.Tokens <= 1e6, "--tokens %d: 1 to 1000000", o.Tokens)
	must(o.Temperature >= 0 && o.Temperature <= 100, "--temperature %v: 0 to 100", o.Temperature)
	must(o.Dtype == "" || o.Dtype == "bf16" || o.Dtype == "f32", "--dtype %q: bf16 or f32", o.Dtype)
	if o.says = nil; cmd.Flags().Changed("system") {
		o.says = &o.System
	}
	if len(wrong) > 0 {
		return exits.Usagef("%s\nhint: see '%s --help'", strings.Join(wrong, "\n"), cmd.CommandPath())
	}
	return nil
}

// OpenRun opens the model with the settings of its episodes.
func (o *Options) OpenRun(log io.Writer) (*trained.Run, *experiment.Episode, error) {
	e := &experiment.Episode{}
	e.SetDefaults()
	var r *trained.Run
	if o.Run != "" {
		var err error
		if r, err = inputs.OpenRun(o.Run, o.Model, &o.Weights, log); err != nil {
			return nil, nil, err
		}
		if r.Episode == nil {
			return nil, nil, exits.Usagef("--run %s: it trained a model that makes pictures, and answers nothing\nhint: darkroom sample --run %s --prompt TEXT --out FILE", o.Run, o.Run)
		}
		*e = *r.Episode
		o.Template = cmp.Or(o.Template, r.Experiment.Model.Template)
		if o.Path = o.Model; o.Path == "" {
			o.Path = r.Experiment.Model.Path
		}
		if o.Model = r.Model; o.Dtype == "" {
			o.Dtype = r.Experiment.Model.Precision
		}
	}
	if o.says != nil {
		e.System = o.says
	}
	if r == nil {
		o.Path = o.Model
		if strings.HasPrefix(o.Model, "embed:") { // it learned this one
			o.Protocol = cmp.Or(o.Protocol, "darkroom")
		}
	}
	if o.Protocol != "" {
		e.Protocol, e.Tools = o.Protocol, nil
	}
	if o.Protocol != "" && o.Protocol != "darkroom" {
		e.Frame = "shown"
	}
	e.Turns, e.TurnTokens = cmp.Or(o.Turns, e.Turns), cmp.Or(o.Tokens, e.TurnTokens)
	e.Sampling.TopK, e.Sampling.Temperature = 1, 1
	if o.Temperature > 0 {
		e.Sampling.TopK, e.Sampling.Temperature = 0, o.Temperature
	}
	return r, e, nil
}

// ask plays one episode.
func (o *Options) ask(cmd *cobra.Command) (a *answer, err error) {
	r, e, err := o.OpenRun(cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	protocol, err := e.Play()
	if err != nil {
		return nil, exits.Usage(err)
	}
	pictures, err := o.pictures()
	if err != nil {
		return nil, exits.Usage(err)
	}
	dir, err := assets.Resolve(o.Model)
	if err != nil {
		return nil, exits.Usage(err)
	}
	be, err := devices.Open(o.Device)
	if err != nil {
		return nil, err
	}
	defer be.Close()
	pool := tensor.NewPool(be)
	speaker, free, err := o.VLM(r, dir, pool)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, free()) }()
	p, leave, err := o.Policy(cmd.Context(), speaker, protocol, e)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, leave()) }()
	p.Parallel = 1
	p.Prompts = func(int) (chat.Prompt, error) {
		q := chat.NewPrompt(o.Question, pictures...)
		return q.WithInstructions(e, o.Path, speaker.Template)
	}
	samples, err := p.Roll(trainer.Current, []trainer.Key{{}})
	if err != nil {
		return nil, err
	}
	if err := context.Cause(cmd.Context()); err != nil {
		return nil, err
	}
	said := rollout.EpisodeOf(samples[0])
	if said.Lost != nil {
		return nil, said.Lost
	}
	return newAnswer(o.Question, said), nil
}

// Policy is who answers, by the tools that the experiment names; leave closes these.
func (o *Options) Policy(ctx context.Context, s *chat.VLM, protocol *tools.Protocol, e *experiment.Episode) (p *rollout.Policy, leave func() error, err error) {
	p = &rollout.Policy{VLM: s, Protocol: protocol, Limits: e.Limits(), TurnTokens: e.TurnTokens, Sampling: e.Sampling, Exec: e.Exec, Parallel: e.Parallel,
		Draws: trainer.Draws{Root: rng.New(o.Seed), Fixed: true}, Context: ctx}
	leave, err = p.Serve(e)
	return p, leave, err
}

// pictures are those of the question: files, or cards that the program draws.
func (o *Options) pictures() (all []*vision.Image, err error) {
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

// VLM opens the model with its trained weights.
func (o *Options) VLM(r *trained.Run, dir string, pool *tensor.Pool) (s *chat.VLM, free func() error, err error) {
	opened := chat.Options{Pool: pool, F32: o.Dtype == "f32", Template: o.Template}
	var values *trained.Values
	if r != nil && r.Adapted() {
		if o.Lora, err = r.Adapter(trained.Which(o.Weights)); err != nil {
			return nil, nil, exits.Usage(err)
		}
	} else if r != nil {
		dry, err := devices.Dry()
		if err != nil {
			return nil, nil, err
		}
		if values, err = r.Values(trained.Which(o.Weights), dry, pool); err != nil {
			return nil, nil, exits.Usage(err)
		}
		opened.Weights = values.Networks[0]
	}
	if s, err = chat.Open(dir, opened); err != nil {
		return nil, nil, inputs.CloseValues(values, err)
	}
	free = func() error { return inputs.CloseValues(values, s.Close()) }
	if o.Lora == "" {
		return s, free, nil
	}
	a, err := chat.Known(s.Params).Open(o.Lora)
	if err != nil {
		return nil, nil, errors.Join(exits.Usage(err), free())
	}
	defer a.Close()
	if _, err = a.AddTo(s.Params); err != nil {
		return nil, nil, errors.Join(exits.Usage(err), free())
	}
	return s, free, nil
}

// answer is a conversation, as --json prints it.
type answer struct {
	Question   string            `json:"question"`
	Replies    []string          `json:"said"` // by the model, a turn each
	Answer     string            `json:"answer"`
	End        tools.End         `json:"end"`
	Transcript *tools.Transcript `json:"transcript"`
}

func newAnswer(question string, e *rollout.Episode) *answer {
	return &answer{question, e.Texts, e.Answer, e.End, e.Transcript}
}

// write is the conversation for people.
func (a *answer) write(w io.Writer) {
	fmt.Fprintf(w, "user: %s\n", console.Printable(a.Question))
	a.shots(w, -1)
	for i, text := range a.Replies {
		fmt.Fprintf(w, "assistant: %s\n", console.Printable(strings.TrimSpace(text)))
		if i < len(a.Transcript.Turns) {
			for _, c := range a.Transcript.Turns[i].Calls {
				fmt.Fprintf(w, "  calls %s%s\n", console.Printable(c.Tool), refusedWords(c))
			}
		}
		a.shots(w, i)
	}
	if a.Answer != "" {
		fmt.Fprintf(w, "\nanswer: %s\n", console.Printable(a.Answer))
	} else {
		fmt.Fprintf(w, "\nno answer: the episode ended with %q\n", a.End)
	}
}

func refusedWords(c tools.CallTaken) string {
	if c.Refused == "" {
		return ""
	}
	return fmt.Sprintf(", refused (%s): %s", c.Refused, console.Printable(c.Message))
}

// shots are the pictures that a turn shows.
func (a *answer) shots(w io.Writer, turn int) {
	for i, s := range a.Transcript.Shots {
		if s.Turn != turn {
			continue
		}
		fmt.Fprintf(w, "  picture %d: %d x %d", i+1, s.Width, s.Height)
		if s.ShownWidth != s.Width || s.ShownHeight != s.Height {
			fmt.Fprintf(w, ", shown as %d x %d", s.ShownWidth, s.ShownHeight)
		}
		if turn >= 0 && s.Root >= 0 {
			fmt.Fprintf(w, ", of picture %d from (%.0f, %.0f) to (%.0f, %.0f)", s.Root+1, s.Box[0], s.Box[1], s.Box[2], s.Box[3])
		}
		fmt.Fprintln(w)
	}
}
