package experiment

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/trainer/optim"
)

// Stage is one [[stage]]: for some iterations, other values of some keys. Each stage begins with the file's keys
// outside of stages, not with the stage before it.
// The learned weights go on: trainer/run/run.go lists the kept state.
type Stage struct {
	Name       string        `toml:"name" doc:"for the ledger"`
	Iterations int           `toml:"iterations,required" range:"[1,1e9]" doc:"of this stage"`
	Sampler    Sampler       `toml:"sampler"`
	Rollout    Rollout       `toml:"rollout"`
	Advantage  Advantage     `toml:"advantage"`
	Loss       Loss          `toml:"loss"`
	Optim      optim.Options `toml:"optim"`
	Together   Together      `toml:"rewards"`
	Train      Moves         `toml:"train,single" doc:"patterns of the names of parameters that this stage moves, of those that [model] trains; the others stay where they are. Empty: all move"`

	Weights map[string]float64 `toml:"weights" doc:"of rewards by their labels, in this stage; 0: measured and not trained on"`
}

// readStages decodes every stage over the rest of the file.
func (e *Experiment) readStages() {
	for i := range e.doc.Len("stage") {
		s := Stage{Sampler: e.Sampler, Rollout: e.Rollout, Advantage: e.Advantage, Loss: e.Loss, Optim: e.Optim, Together: e.Together}
		e.doc.Decode(fmt.Sprintf("stage[%d]", i), &s)
		if e.at(s).Supervised() {
			e.unchosen(fmt.Sprintf("stage[%d].", i), &s)
		}
		e.correctStage(fmt.Sprintf("stage[%d].", i), &s)
		e.ownLists(fmt.Sprintf("stage[%d].", i), &s)
		e.Stages = append(e.Stages, s)
	}
	if e.written("stage") && e.doc.Len("stage") == 0 {
		e.doc.Report("stage", "must be a list of tables", "write [[stage]]: there may be several")
	}
}

// fitStages gives the stages as many iterations as --set run.iterations says: the last ones are cut, or the very last
// one is longer. A file whose stages do not add up stays a mistake.
func (e *Experiment) fitStages() {
	if e.doc.Origin("run.iterations") != config.CommandLine || !e.doc.Clean("run") || !e.doc.Clean("stage") || e.stageIterations() == e.Run.Iterations {
		return
	}
	left := e.Run.Iterations
	for i := range e.Stages {
		s, last := &e.Stages[i], i == len(e.Stages)-1
		if left > s.Iterations && !last {
			left -= s.Iterations
			continue
		}
		var says []string
		if left != s.Iterations {
			how := "%s has %d of its %d iterations"
			if left > s.Iterations {
				how = "%s has %d iterations in place of %d"
			}
			says = append(says, fmt.Sprintf(how, e.stageName(i), left, s.Iterations))
			e.doc.Set(fmt.Sprintf("stage.%d.iterations=%d", i, left))
			s.Iterations = left
		}
		for n := i + 1; n < len(e.Stages); n++ {
			says = append(says, e.stageName(n)+" is left out")
		}
		e.doc.Cut("stage", i+1)
		e.Stages = e.Stages[:i+1]
		e.fitted = fmt.Sprintf("--set run.iterations=%d: %s", e.Run.Iterations, strings.Join(says, ", "))
		return
	}
}

// Fitted says how --set run.iterations changed the stages; "" where they are as the file has them.
func (e *Experiment) Fitted() string { return e.fitted }

// stageName is how messages call a stage.
func (e *Experiment) stageName(i int) string {
	if name := e.Stages[i].Name; name != "" {
		return fmt.Sprintf("stage %q", name)
	}
	return fmt.Sprintf("stage[%d]", i)
}

// written reports whether a key is written.
func (e *Experiment) written(key string) bool { return e.doc.Origin(key) != config.Absent }

// at is the experiment during a stage.
func (e *Experiment) at(s Stage) *Experiment {
	other := *e
	other.Run.Iterations = s.Iterations
	other.moves = s.Train
	other.Together, other.Rewards = s.Together, e.weighed(s)
	other.reweighed = len(s.Weights) > 0 || s.Together != e.Together
	other.Sampler, other.Rollout, other.Advantage, other.Loss, other.Optim = s.Sampler, s.Rollout, s.Advantage, s.Loss, s.Optim
	return &other
}

// Stage is the experiment during stage i.
func (e *Experiment) Stage(i int) *Experiment { return e.at(e.Stages[i]) }

// Moves are patterns of the names of parameters that a stage moves, of those that [model] trains; none: all of them.
// A pattern is a regular expression for a whole name, as in model.train. An adapter's parameters have the names of
// their layers with .lora_A.weight and .lora_B.weight behind them.
type Moves []string

// Has reports whether a parameter moves.
func (m Moves) Has(name string) bool {
	return len(m) == 0 || slices.ContainsFunc(m, func(p string) bool {
		whole, err := wholly(p)
		return err == nil && whole.MatchString(name)
	})
}

// Idle are the patterns that are of none of some names.
func (m Moves) Idle(names []string) (all []string) {
	for _, p := range m {
		if !slices.ContainsFunc(names, Moves{p}.Has) {
			all = append(all, p)
		}
	}
	return all
}

func wholly(pattern string) (*regexp.Regexp, error) { return regexp.Compile("^(?:" + pattern + ")$") }

// Moves are the trained parameters that move in a stage.
func (e *Experiment) Moves() Moves { return e.moves }

// checkStagesMoves refuses invalid patterns.
func (e *Experiment) checkStagesMoves(r report) {
	for i, s := range e.Stages {
		for k, p := range s.Train {
			key := fmt.Sprintf("stage[%d].train", i)
			if len(s.Train) > 1 {
				key += fmt.Sprintf("[%d]", k)
			}
			switch _, err := wholly(p); {
			case err != nil:
				r(key, fmt.Sprintf("%q is no pattern: %v", p, err), `a regular expression for whole names, such as "transformer_blocks.2[0-3].*"`)
			case p == "lora" || p == "full":
				r(key, fmt.Sprintf("what is trained is the same in all stages, and %q is no parameter of it", p), `patterns of names that [model] trains; from an adapter to all weights it takes two runs, the second from what 'darkroom export --as merged' wrote`)
			}
		}
	}
}
