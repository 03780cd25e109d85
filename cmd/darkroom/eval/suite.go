package eval

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/ask"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/devices"
	"github.com/darkroom-rl/darkroom/cmd/darkroom/inputs"
	"github.com/darkroom-rl/darkroom/cmd/internal/console"
	"github.com/darkroom-rl/darkroom/cmd/internal/exits"
	"github.com/darkroom-rl/darkroom/cmd/internal/version"
	"github.com/darkroom-rl/darkroom/data/suites"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations/chat"
	"github.com/darkroom-rl/darkroom/trainer/conversations/rollout"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/trained"
)

// darkroom eval --model DIR --suite NAME:FILE: a vision-language model answers published questions, and its scores
// are written with all that they depend on.

// suiteOptions are eval's flags of suites.
type suiteOptions struct {
	ask.Options
	suites []string
	first  int
	out    string
}

func (o *suiteOptions) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&o.suites, "suite", nil, "`NAME:FILE` of questions ("+strings.Join(suites.Names(), ", ")+") that a vision-language model answers; may be given several times")
	f.StringVar(&o.Model, "model", "", "of suites: folder `DIR` of the model, or embed:tiny-vlm (default: the run's)")
	f.StringVar(&o.Run, "run", "", "of suites: `RUN` or checkpoint: its model with what was trained")
	inputs.WeightsFlag(cmd, &o.Weights)
	f.StringVar(&o.Lora, "lora", "", "of suites: adapter, a folder of PEFT's")
	f.StringVar(&o.Protocol, "protocol", "", "of suites: `NAME` of how tools are called (default: the run's, darkroom of an embedded model, or deepeyes)")
	f.StringVar(&o.Template, "template", "", "of suites: `NAME` of a published chat template, or a file that has one, for a folder that has none (default: the run's, or the folder's)")
	f.StringVar(&o.System, "system", "", "of suites: `TEXT` of the system message; '': none (default: the run's, or the protocol's instructions)")
	f.IntVar(&o.Turns, "turns", 0, "of suites: answers of the model at most (default: the run's evaluate.turns, its episode.turns, or 6)")
	f.IntVar(&o.Tokens, "tokens", 0, "of suites: most tokens of an answer (default: the run's, or 2048)")
	f.Float64Var(&o.Temperature, "temperature", 0, "of suites: sampling temperature; 0 is greedy")
	f.StringVar(&o.Dtype, "dtype", "", "of suites: bf16 or f32 (default: the run's, or bf16)")
	f.IntVar(&o.first, "first", 0, "of suites: at most this many questions; 0: all")
	f.StringVar(&o.out, "out", ".", "of suites: folder `DIR` for NAME.json, NAME.jsonl and the card NAME.md")
}

// ownFlags are those that mean nothing without --suite.
var ownFlags = []string{"model", "run", "weights", "lora", "protocol", "template", "system", "turns", "tokens", "temperature", "dtype", "first", "out"}

func (o *suiteOptions) check(cmd *cobra.Command) error {
	o.Question = "of the suite"
	var wrong []string
	if err := o.Options.Check(cmd); err != nil {
		wrong = append(wrong, err.Error())
	}
	var names []string
	for _, s := range o.suites {
		name, file, ok := strings.Cut(s, ":")
		switch {
		case !ok || file == "":
			wrong = append(wrong, fmt.Sprintf("--suite %q: write NAME:FILE, such as vstar:test_questions.jsonl", s))
		case !slices.Contains(suites.Names(), name):
			wrong = append(wrong, fmt.Sprintf("--suite %q is not known: %s are", name, strings.Join(suites.Names(), ", ")))
		case slices.Contains(names, name):
			wrong = append(wrong, fmt.Sprintf("--suite %s is there twice: its result has one place", name))
		}
		names = append(names, name)
	}
	for _, flag := range []string{"reward", "pairs"} {
		if cmd.Flags().Changed(flag) {
			wrong = append(wrong, fmt.Sprintf("--%s judges rewards, and --suite a model: one of them", flag))
		}
	}
	if o.first < 0 {
		wrong = append(wrong, fmt.Sprintf("--first %d: 1 or more, or 0 for all", o.first))
	}
	if len(wrong) > 0 {
		return exits.Usage(errors.New(strings.Join(wrong, "\n")))
	}
	return nil
}

func (o *suiteOptions) evaluate(cmd *cobra.Command) (err error) {
	var sets []*suites.Set
	for _, s := range o.suites { // before a model is opened
		name, file, _ := strings.Cut(s, ":")
		set, err := suites.Open(name, file)
		if err != nil {
			return exits.Usage(err)
		}
		if o.first > 0 && o.first < len(set.Questions) {
			set.Questions = set.Questions[:o.first:o.first]
		}
		sets = append(sets, set)
	}
	r, e, err := o.OpenRun(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	o.evaluated(r, e)
	protocol, err := e.Play()
	if err != nil {
		return exits.Usage(err)
	}
	dir, err := assets.Resolve(o.Model)
	if err != nil {
		return exits.Usage(err)
	}
	be, err := devices.Open(o.Device)
	if err != nil {
		return err
	}
	defer be.Close()
	speaker, free, err := o.VLM(r, dir, tensor.NewPool(be))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, free()) }()
	p, leave, err := o.Policy(cmd.Context(), speaker, protocol, e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leave()) }()
	how, err := o.how(r, e, dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	var all []suites.Result
	for _, set := range sets {
		answers, err := o.answers(cmd, p, e, set)
		if err != nil {
			return errors.Join(err, keepAnswers(cmd, o.out, set.Name, answers))
		}
		result := set.Result(answers, how)
		if err := write(o.out, result, answers); err != nil {
			return err
		}
		all = append(all, result)
	}
	return console.Emit(cmd, all, func(w io.Writer) { o.print(w, all) })
}

// evaluated gives a run's episodes the settings of its evaluations.
func (o *suiteOptions) evaluated(r *trained.Run, e *experiment.Episode) {
	if r != nil && o.Turns == 0 {
		e.Turns = cmp.Or(r.Experiment.Evaluate.Turns, e.Turns)
	}
}

// how is all that results depend on beside the questions.
func (o *suiteOptions) how(r *trained.Run, e *experiment.Episode, dir string) (suites.How, error) {
	limits := e.Limits()
	told, err := e.Instructions(o.Path)
	if err != nil {
		return suites.How{}, err
	}
	h := suites.How{Model: o.Model, Protocol: e.Protocol, System: told.System, Question: told.Question, InstructionsOf: told.Source, Version: version.Read().String(),
		Limits:   map[string]int{"turns": limits.Turns, "tokens": limits.Tokens, "pictures": limits.Pictures, "tokens of a turn": e.TurnTokens},
		Sampling: map[string]any{"temperature": e.Sampling.Temperature, "likeliest tokens": e.Sampling.TopK, "top_p": e.Sampling.TopP, "min_p": e.Sampling.MinP, "repetition_penalty": e.Sampling.Repetition, "seed": o.Seed, "dtype": cmp.Or(o.Dtype, "bf16")}}
	for _, t := range e.Served {
		h.Tools = append(h.Tools, fmt.Sprintf("%s (%s)", t.Name, t.Place()))
	}
	folders := []string{dir}
	if r != nil {
		h.Model, folders = o.Run, append(folders, r.Checkpoint.Dir)
	}
	if o.Lora != "" {
		folders = append(folders, o.Lora)
	}
	h.Weights, err = sumOfFolders(folders)
	return h, err
}

// sumOfFolders is SHA-256 of the names and bytes of models' files.
func sumOfFolders(folders []string) (string, error) {
	h := sha256.New()
	for _, dir := range folders {
		for _, pattern := range []string{"*.safetensors", "*.json", "*.jinja", "merges.txt"} {
			names, err := filepath.Glob(filepath.Join(dir, pattern))
			if err != nil {
				return "", err
			}
			for _, name := range names {
				f, err := os.Open(name)
				if err != nil {
					return "", err
				}
				fmt.Fprintf(h, "%s\n", filepath.Base(name))
				_, err = io.Copy(h, f)
				if err := errors.Join(err, f.Close()); err != nil {
					return "", fmt.Errorf("reading %s: %w", name, err)
				}
			}
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

func (o *suiteOptions) print(w io.Writer, all []suites.Result) {
	t := console.Table{Header: []string{"SUITE", "QUESTIONS", ">RIGHT", ">95 %", ">UNENDED"}}
	for _, r := range all {
		t.Add(r.Suite, fmt.Sprintf("%d/%d", r.Questions, r.Of), fmt.Sprintf("%.1f %%", 100*r.Accuracy.Value), fmt.Sprintf("%.1f to %.1f", 100*r.Accuracy.Low, 100*r.Accuracy.High), fmt.Sprint(r.Unended))
	}
	t.Write(w)
	for _, r := range all {
		fmt.Fprintf(w, "written: %s\n", filepath.Join(o.out, r.Suite+".md"))
	}
}

// mostLost bounds the share of lost questions, one in this many: of more a suite says nothing.
const mostLost = 10

// rollTwice asks those once more that a tool outside has lost, after all its tries.
func rollTwice(p *rollout.Policy, keys []trainer.Key) ([]trainer.Sample, error) {
	samples, err := p.Roll(trainer.Current, keys)
	if err != nil {
		return nil, err
	}
	for i, s := range samples {
		if rollout.EpisodeOf(s).Lost == nil {
			continue
		}
		again, err := p.Roll(trainer.Current, keys[i:i+1])
		if err != nil {
			return nil, err
		}
		samples[i] = again[0]
	}
	return samples, nil
}

// answers has the model answer a set's questions, some at a time. With an error come those that there are. A question
// that a tool outside loses is asked twice, and is not right.
func (o *suiteOptions) answers(cmd *cobra.Command, p *rollout.Policy, e *experiment.Episode, set *suites.Set) (all []suites.Answer, err error) {
	p.Prompts = func(n int) (chat.Prompt, error) {
		m, err := set.Questions[n].Picture()
		if err != nil {
			return chat.Prompt{}, err
		}
		q := chat.NewPrompt(set.Questions[n].Prompt, m)
		return q.WithInstructions(e, o.Path, p.VLM.Template)
	}
	bar := console.NewProgress(cmd.ErrOrStderr(), set.Name)
	defer bar.End()
	portion, lost := 4*p.AtOnce(), 0
	for from := 0; from < len(set.Questions); from += portion {
		var keys []trainer.Key
		for n := from; n < min(from+portion, len(set.Questions)); n++ {
			keys = append(keys, trainer.Key{Prompt: n})
		}
		p.Progress = func(done, _ int) { bar.Set(from+done, len(set.Questions)) }
		samples, err := rollTwice(p, keys)
		if err != nil {
			return all, fmt.Errorf("%s: %w", set.Name, err)
		}
		for i, s := range samples {
			q, said := set.Questions[from+i], rollout.EpisodeOf(s)
			if said.Lost != nil {
				all = append(all, suites.Answer{ID: q.ID, Category: q.Category, Prompt: q.Prompt, Turns: said.Texts, End: string(said.End), Truth: q.Answer, Lost: said.Lost.Error()})
				if lost++; lost*mostLost > len(set.Questions) {
					return all, fmt.Errorf("%s: more than one question in %d is lost, such as %s: %w\nhint: see that the tool answers, and ask again: it keeps what it has answered", set.Name, mostLost, q.ID, said.Lost)
				}
				continue
			}
			a := suites.Answer{ID: q.ID, Category: q.Category, Prompt: q.Prompt, Turns: said.Texts, End: string(said.End), Truth: q.Answer}
			reply := said.Answer
			if reply == "" {
				reply = a.Reply()
			}
			a.Right = set.Right(q, reply)
			all = append(all, a)
		}
	}
	return all, nil
}

// linesOf are answers, a line of JSON each.
func linesOf(answers []suites.Answer) (string, error) {
	var lines strings.Builder
	for _, a := range answers {
		line, err := json.Marshal(a)
		if err != nil {
			return "", err
		}
		lines.Write(append(line, '\n'))
	}
	return lines.String(), nil
}

// keepAnswers writes the answers of a suite that was not finished, and says where.
func keepAnswers(cmd *cobra.Command, dir, name string, answers []suites.Answer) error {
	if len(answers) == 0 {
		return nil
	}
	lines, err := linesOf(answers)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, name+".unfinished.jsonl")
	if err := os.WriteFile(path, []byte(lines), 0o644); err != nil {
		return fmt.Errorf("writing the answers so far: %w", err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s so far are in %s\n", console.Plural(int64(len(answers)), "answer"), path)
	return nil
}

// write writes a result, the answers, and the card.
func write(dir string, r suites.Result, answers []suites.Answer) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	lines, err := linesOf(answers)
	if err != nil {
		return err
	}
	for ending, content := range map[string]string{".json": string(text) + "\n", ".jsonl": lines, ".md": r.Card()} {
		if err := os.WriteFile(filepath.Join(dir, r.Suite+ending), []byte(content), 0o644); err != nil {
			return fmt.Errorf("writing the result: %w", err)
		}
	}
	return nil
}
