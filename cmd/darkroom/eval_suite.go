package main

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/darkroom-rl/darkroom/assets"
	"github.com/darkroom-rl/darkroom/data/suites"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/trained"
)

// darkroom eval --model DIR --suite NAME:FILE: a vision-language model answers published questions, and what it scores
// is written with all that it depends on.

// suiteOptions are eval's flags of suites.
type suiteOptions struct {
	askOptions
	suites []string
	first  int
	out    string
}

func (o *suiteOptions) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&o.suites, "suite", nil, "`NAME:FILE` of questions ("+strings.Join(suites.Names(), ", ")+") that a vision-language model answers; may be given several times")
	f.StringVar(&o.model, "model", "", "of suites: folder `DIR` of the model, or embed:tiny-vlm (default: the run's)")
	f.StringVar(&o.run, "run", "", "of suites: `RUN` or checkpoint: its model with what was trained")
	weightsFlag(cmd, &o.weights)
	f.StringVar(&o.lora, "lora", "", "of suites: adapter, a folder of PEFT's")
	f.StringVar(&o.protocol, "protocol", "", "of suites: `NAME` of how tools are called (default: the run's, or deepeyes)")
	f.StringVar(&o.template, "template", "", "of suites: `NAME` of a published chat template, or a file that has one, for a folder that has none (default: the run's, or the folder's)")
	f.StringVar(&o.system, "system", "", "of suites: `TEXT` of the system message; '': none (default: the run's, or the protocol's instructions)")
	f.IntVar(&o.turns, "turns", 0, "of suites: answers of the model at most (default: the run's evaluate.turns, its episode.turns, or 6)")
	f.IntVar(&o.tokens, "tokens", 0, "of suites: most tokens of an answer (default: the run's, or 2048)")
	f.Float64Var(&o.temperature, "temperature", 0, "of suites: sampling temperature; 0 is greedy")
	f.StringVar(&o.dtype, "dtype", "", "of suites: bf16 or f32 (default: the run's, or bf16)")
	f.IntVar(&o.first, "first", 0, "of suites: at most this many questions; 0: all")
	f.StringVar(&o.out, "out", ".", "of suites: folder `DIR` for NAME.json, NAME.jsonl and the card NAME.md")
}

// ownFlags are those that mean nothing without --suite.
var ownFlags = []string{"model", "run", "weights", "lora", "protocol", "template", "system", "turns", "tokens", "temperature", "dtype", "first", "out"}

func (o *suiteOptions) check(cmd *cobra.Command) error {
	o.question = "of the suite"
	var wrong []string
	if err := o.askOptions.check(cmd); err != nil {
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
		return usageOf(errors.New(strings.Join(wrong, "\n")))
	}
	return nil
}

func (o *suiteOptions) evaluate(cmd *cobra.Command) (err error) {
	var sets []*suites.Set
	for _, s := range o.suites { // before a model is opened
		name, file, _ := strings.Cut(s, ":")
		set, err := suites.Open(name, file)
		if err != nil {
			return usageOf(err)
		}
		if o.first > 0 && o.first < len(set.Questions) {
			set.Questions = set.Questions[:o.first:o.first]
		}
		sets = append(sets, set)
	}
	r, e, err := o.asked(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	o.evaluated(r, e)
	protocol, err := e.Play()
	if err != nil {
		return usageOf(err)
	}
	dir, err := assets.Resolve(o.model)
	if err != nil {
		return usageOf(err)
	}
	be, err := openDevice(o.device)
	if err != nil {
		return err
	}
	defer be.Close()
	speaker, free, err := o.speaker(r, dir, tensor.NewPool(be))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, free()) }()
	p, leave, err := o.policy(cmd.Context(), speaker, protocol, e)
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
	return emit(cmd, all, func(w io.Writer) { o.print(w, all) })
}

// evaluated makes of a run's episodes what its evaluations have.
func (o *suiteOptions) evaluated(r *trained.Run, e *experiment.Episode) {
	if r != nil && o.turns == 0 {
		e.Turns = cmp.Or(r.Experiment.Evaluate.Turns, e.Turns)
	}
}

// how is what results depend on beside the questions.
func (o *suiteOptions) how(r *trained.Run, e *experiment.Episode, dir string) (suites.How, error) {
	limits := e.Limits()
	told, err := e.Instructions(o.path)
	if err != nil {
		return suites.How{}, err
	}
	h := suites.How{Model: o.model, Protocol: e.Protocol, System: told.System, Question: told.Question, Told: told.Source, Version: readBuild().String(),
		Limits:   map[string]int{"turns": limits.Turns, "tokens": limits.Tokens, "pictures": limits.Pictures, "tokens of a turn": e.TurnTokens},
		Sampling: map[string]any{"temperature": e.Sampling.Temperature, "likeliest tokens": e.Sampling.TopK, "top_p": e.Sampling.TopP, "min_p": e.Sampling.MinP, "repetition_penalty": e.Sampling.Repetition, "seed": o.seed, "dtype": cmp.Or(o.dtype, "bf16")}}
	for _, t := range e.Served {
		h.Tools = append(h.Tools, fmt.Sprintf("%s (%s)", t.Name, t.Place()))
	}
	folders := []string{dir}
	if r != nil {
		h.Model, folders = o.run, append(folders, r.Checkpoint.Dir)
	}
	if o.lora != "" {
		folders = append(folders, o.lora)
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
	t := table{header: []string{"SUITE", "QUESTIONS", ">RIGHT", ">95 %", ">UNENDED"}}
	for _, r := range all {
		t.add(r.Suite, fmt.Sprintf("%d/%d", r.Questions, r.Of), fmt.Sprintf("%.1f %%", 100*r.Accuracy.Value), fmt.Sprintf("%.1f to %.1f", 100*r.Accuracy.Low, 100*r.Accuracy.High), fmt.Sprint(r.Unended))
	}
	t.write(w)
	for _, r := range all {
		fmt.Fprintf(w, "written: %s\n", filepath.Join(o.out, r.Suite+".md"))
	}
}
