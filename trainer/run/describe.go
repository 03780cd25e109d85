package run

import (
	"math"
	"strconv"

	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
)

// What the ledger says of the samples beside their means: what a collapse or a hacked reward
// looks like before the mean shows it.

// describe fills in what a line says of its samples.
func (t *training) describe(l *ledger.Line, scores []float64, groups [][]int) {
	l.BestOf = map[string]float64{}
	for _, k := range experiment.BestOfs(t.now.turn.Rollout.Group) {
		if v := advantage.ExpectedBest(byGroup(groups, scores), k); !math.IsNaN(v) {
			l.BestOf[strconv.Itoa(k)] = v
		}
	}
	if t.state.Bins == nil {
		t.state.Bins = ledger.BinsOf(scores)
	}
	if t.state.Bins != nil && l.Total.Missing < l.Samples {
		l.Histogram = t.state.Bins.Count(scores)
	}
}

// byGroup are the numbers of every group.
func byGroup(groups [][]int, x []float64) [][]float64 {
	out := make([][]float64, len(groups))
	for g, at := range groups {
		for _, i := range at {
			out[g] = append(out[g], x[i])
		}
	}
	return out
}
