package experiment

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/outside/regular"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/optim"
	"github.com/darkroom-rl/darkroom/trainer/sampling"
)

// An Experiment is all that a file says.
type Experiment struct {
	Preset     string        `toml:"preset" doc:"settings of a published system, for every table"`
	Run        Run           `toml:"run"`
	Model      Model         `toml:"model"`
	Sampler    Sampler       `toml:"sampler" of:"pictures"`
	Rollout    Rollout       `toml:"rollout"`
	Rewards    []Reward      `toml:"reward" doc:"what pictures are judged by"`
	Together   Together      `toml:"rewards" doc:"how several become one"`
	Advantage  Advantage     `toml:"advantage"`
	Loss       Loss          `toml:"loss"`
	Optim      optim.Options `toml:"optim"`
	Monitors   []Monitor     `toml:"monitor" doc:"what is watched while the run goes on"`
	Evaluate   Evaluate      `toml:"evaluate"`
	Checkpoint Checkpoint    `toml:"checkpoint"`
	Track      Track         `toml:"track" doc:"other pages that show the run while it goes on"`
	Episode    *Episode      `toml:"episode" doc:"turns of a vision-language model"`
	Stages     []Stage       `toml:"stage,later" doc:"overrides that are run one after another"`

	doc   *config.Document
	given []given // presets, weakest first

	reweighed  bool     // the rewards are a stage's own
	moves      Moves    // the part that a stage moves
	unreadable []string // tables with a key that is unknown, or of another kind
	fitted     string   // how stages were cut or made longer; "" as written
	lists      *prompts.Lists
}

// Open reads a list of prompts that the file names, once however many ask for it.
func (e *Experiment) Open(name string) ([]prompts.Prompt, error) { return e.lists.Open(name) }

// Beside is a path in the folder of the experiment's file, where a file lies there and the path is not absolute; else
// "".
func (e *Experiment) Beside(path string) string {
	if filepath.IsAbs(path) || e.doc == nil {
		return ""
	}
	at := filepath.Join(filepath.Dir(e.doc.Name()), path)
	if _, err := os.Stat(at); err != nil || at == filepath.Clean(path) {
		return ""
	}
	return at
}

// Default is the experiment of an empty file.
func Default() Experiment {
	return Experiment{
		Run:        Run{Device: "auto", Shards: 1, RankLimit: exchange.UsualLimit.Seconds()},
		Model:      Model{Precision: "bf16", Decoder: "auto", Experts: "both", Train: []string{"lora"}, LoRA: defaultLoRA()},
		Sampler:    defaultSampler(),
		Rollout:    Rollout{LessonOptions: loss.LessonOptions{LessonsMask: "whole"}, PromptsPerIteration: 4, Group: 12},
		Together:   Together{Combine: "sum"},
		Advantage:  defaultAdvantage(),
		Loss:       defaultLoss(),
		Optim:      optim.Defaults(),
		Evaluate:   Evaluate{Samples: 1, Seed: 1, Weights: "current"},
		Checkpoint: Checkpoint{Every: 20, Keep: 3},
		Track:      Track{Names: "darkroom"},
	}
}

// Read reads a file and the settings over it. The error holds every mistake; with it comes the readable part of a
// file that is TOML, for further checks.
func Read(file string, sets []string) (*Experiment, error) {
	f, err := regular.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, config.MaxSize+1)) // Parse tells of one that is longer
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return Parse(file, text, sets)
}

// Parse is Read of a text.
func Parse(name string, text []byte, sets []string) (*Experiment, error) {
	doc := config.Parse(name, text)
	doc.Hint = ofOthers
	for _, s := range sets {
		doc.Set(s)
	}
	e := Default()
	e.doc, e.lists = doc, new(prompts.Lists)
	e.applyPresets()
	doc.Decode("", &e)
	if p := e.Episode; p != nil {
		p.Sampling.Arithmetic = p.Sampling.Recorded(func(key string) bool { return doc.Origin("episode.sampling."+key) != config.Absent })
	}
	e.correctEngine()
	e.readStages()
	e.finetuned()
	e.fitStages()
	e.unbound()
	for _, table := range tables {
		if !doc.Clean(table) {
			e.unreadable = append(e.unreadable, table)
		}
	}
	e.check(doc)
	if err := doc.Err(); err != nil {
		if len(e.unreadable) == len(tables) { // not TOML
			return nil, err
		}
		return &e, err
	}
	return &e, nil
}

// tables are those whose values others look at.
var tables = []string{"run", "model", "sampler", "rollout", "reward", "rewards", "advantage", "loss", "optim", "evaluate", "episode", "stage"}

// Sound reports whether some tables could be read: the meaning of their keys may be wrong all the same.
func (e *Experiment) Sound(tables ...string) bool {
	return !slices.ContainsFunc(tables, func(t string) bool { return slices.Contains(e.unreadable, t) })
}

// Write writes the resolved file: every key with its value, and its origin where that was not the file.
func (e *Experiment) Write(w io.Writer) error {
	if err := config.Write(w, e, e.Origin); err != nil {
		return err
	}
	return config.WriteTables(w, e.doc, "stage")
}

// Origin is the source of a key's value; nothing where it was the file.
func (e *Experiment) Origin(key string) string {
	switch e.doc.Origin(key) {
	case config.File:
		return ""
	case config.CommandLine:
		return "--set"
	}
	for i := len(e.given) - 1; i >= 0; i-- {
		g := e.given[i]
		if strings.HasPrefix(key, g.table) && g.doc.Origin(key) != config.Absent {
			return "preset " + g.preset.Name.Name
		}
	}
	if key == "episode.sampling.arithmetic" && e.Episode.Sampling.Arithmetic != sampling.Default().Arithmetic {
		return "an earlier version's"
	}
	return "default"
}

// For packages that compare an experiment with the files that it names (package preflight), and report errors at
// their place in the experiment's file.

// Refuse reports a mistake at the first of some keys ("a|b") that the file has.
func (e *Experiment) Refuse(keys, problem, hint string) {
	e.doc.Report(e.oneWritten("", keys), problem, hint)
}

// RefuseAt is Refuse for one of EachStage: where its stage has none of the keys, at its beginning.
func (e *Experiment) RefuseAt(turn int, keys, problem, hint string) {
	if len(e.Stages) > 0 {
		prefix := fmt.Sprintf("stage[%d].", turn)
		if key := prefix + e.oneWritten(prefix, keys); e.written(key) {
			e.doc.Report(key, problem, hint)
			return
		}
	}
	e.Refuse(keys, problem, hint)
}

// Clean reports whether nothing was reported of a key, or below it.
func (e *Experiment) Clean(key string) bool { return e.doc.Clean(key) }

// Mistakes is an error that holds all that was reported, or nil.
func (e *Experiment) Mistakes() error { return e.doc.Err() }

// Given reports whether the file, the command line or a preset sets a key.
func (e *Experiment) Given(key string) bool { return e.Origin(key) != "default" }

// Trained is which parameters are trained by name, none where there is an adapter in their place.
func (m Model) Trained() (patterns []string, adapter bool) {
	switch {
	case len(m.Train) == 1 && m.Train[0] == "lora":
		return nil, true
	case len(m.Train) == 1 && m.Train[0] == "full":
		return []string{".*"}, false
	}
	return m.Train, false
}

// Ladder reports whether the sampler is for variance-preserving models, and not for flows.
func (s Sampler) Ladder() bool {
	solver, _ := sde.SolverNamed(s.Solver)
	return solver.VP
}
