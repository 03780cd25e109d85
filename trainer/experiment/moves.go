package experiment

import (
	"fmt"
	"regexp"
	"slices"
)

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

// Moves are what of the trained part moves in a stage.
func (e *Experiment) Moves() Moves { return e.moves }

// checkStagesMoves refuses what is no pattern.
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
