package compare

import (
	"cmp"
	"slices"
)

// Comparison is the difference of two folders.
type Comparison struct {
	A          string     `json:"a"`
	B          string     `json:"b"`
	Same       bool       `json:"same"`             // every number that both have, but for timing
	Settings   []string   `json:"settings"`         // those that differ, a sentence each
	Inputs     []string   `json:"inputs,omitempty"` // program, machine, model and prompts, where they differ
	First      *Place     `json:"first,omitempty"`
	Cause      Cause      `json:"cause"`
	Meaning    string     `json:"meaning"`
	Iterations [2]int     `json:"iterations"` // that A and B have finished
	HeldOut    []HeldOut  `json:"heldout,omitempty"`
	Seconds    [2]float64 `json:"seconds"` // of all iterations
}

// Runs compares the runs of two folders. Nothing is written.
func Runs(a, b string) (*Comparison, error) {
	runA, err := read(a)
	if err != nil {
		return nil, err
	}
	runB, err := read(b)
	if err != nil {
		return nil, err
	}
	c := &Comparison{A: a, B: b, Settings: settings(runA, runB), Inputs: inputs(runA, runB)}
	c.Iterations = [2]int{runA.iterations(), runB.iterations()}
	c.Seconds = [2]float64{runA.spent(), runB.spent()}
	places, err := differences(a, b)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(places, before)
	if len(places) > 0 {
		c.First = &places[0]
	}
	c.Same = c.First == nil
	if c.Cause, c.Meaning, err = meaning(runA, runB, c, places); err != nil {
		return nil, err
	}
	c.HeldOut, err = heldOut(runA, runB)
	return c, err
}

// differences are the first place of each file, and the first checkpoint, where the folders differ.
func differences(a, b string) ([]Place, error) {
	var all []Place
	for _, file := range files() {
		found, err := firstOf(a, b, file)
		if err != nil {
			return nil, err
		}
		if found != nil {
			all = append(all, *found)
		}
	}
	found, err := checkpoints(a, b)
	if err == nil && found != nil {
		all = append(all, *found)
	}
	return all, err
}

// before orders places as their numbers came to be.
func before(x, y Place) int {
	return cmp.Or(x.when().before(y.when()), cmp.Compare(x.rank, y.rank), cmp.Compare(x.Line, y.Line))
}
