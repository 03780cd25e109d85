package prompts

import "math"

// A Ban leaves out prompts that the model does well (Edit-R1; UniWorld-V2, 2025): one whose samples all had totals
// above Mean on average, and within Spread of each other, is not rolled again. Upstream gives up where too few prompts
// are left; here as many stay as an iteration has. Upstream does not train on the banned group either: advantage.filter
// does that here.
//
// Invariants (tests): a banned prompt is not rolled again, after a checkpoint either; every iteration is full.
type Ban struct {
	Spread float64 `toml:"spread" range:"[0,inf)" doc:"a prompt is left out whose samples' totals have a standard deviation below this"`
	Mean   float64 `toml:"mean" doc:"and a mean above this"`
}

// SetDefaults are the authors' thresholds.
func (b *Ban) SetDefaults() { *b = Ban{Spread: 0.05, Mean: 0.9} }

// Banned reports whether a prompt with these totals is not to be rolled again. Missing ones say nothing.
func (b Ban) Banned(totals []float64) bool {
	var known []float64
	for _, v := range totals {
		if !math.IsNaN(v) {
			known = append(known, v)
		}
	}
	if len(known) == 0 {
		return false
	}
	mean, squares := 0.0, 0.0
	for _, v := range known {
		mean += v / float64(len(known))
	}
	for _, v := range known {
		squares += float64((v-mean)*(v-mean)) / float64(len(known))
	}
	return math.Sqrt(squares) < b.Spread && mean > b.Mean
}
