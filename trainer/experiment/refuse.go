package experiment

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/sde"
)

// For those who hold an experiment against the files that it names (package preflight), and report what is wrong
// where the experiment's file says it.

// Turns is the experiment as each of its stages has it: itself without stages.
func (e *Experiment) Turns() []*Experiment { return e.everyStage() }

// Refuse reports a mistake at the first of some keys ("a|b") that the file has.
func (e *Experiment) Refuse(keys, problem, hint string) {
	e.doc.Report(e.oneWritten("", keys), problem, hint)
}

// RefuseAt is Refuse for one of Turns: where its stage says nothing of the keys, at what it begins with.
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

// Given reports whether the file, the command line or a preset says what a key is.
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
