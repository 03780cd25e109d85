package conversations

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer"
)

// What the ledger says of conversations.

// Describe implements model.Model.
func (m *Model) Describe(line *ledger.Line, r *trainer.Report) {
	line.Diversity = differ(r.Samples, trainer.Groups(r.Samples))
	if line.Episodes = toolUse(r.Samples); line.Episodes != nil && !m.turn.Taught() {
		worths(line.Episodes, r.Samples, r.Scores)
	}
	if m.Far != nil && line.Episodes != nil {
		line.Episodes["engine_gap"] = m.Far.Gap
	}
	if n := m.opened.Episode.Noisy; n != nil {
		line.Noisy = noisy(r.Samples, n.Old == "rolled")
	}
	if m.turn.Comparison().GreedyAnswer && !math.IsNaN(m.likely.Mean) {
		line.Episodes["greedy"] = m.likely.Mean
	}
}

// noisy is the line of an iteration; nil where nothing was distorted.
func noisy(samples []trainer.Sample, expected bool) *ledger.NoisyLine {
	l := ledger.NoisyLine{Expected: expected}
	var ratios []float64
	for _, s := range samples {
		e := EpisodeOf(s)
		if e.Noise == nil {
			continue
		}
		l.Samples, l.Step = l.Samples+1, e.Noise.Step
		for k, at := range s.Decisions.Step {
			ratios = append(ratios, portable.Exp(e.Noise.LogProb[k]-e.ModelLogProb[at]))
		}
	}
	if l.Samples == 0 {
		return nil
	}
	u := ledger.UpdateOf(0, 0, 0, map[string][]float64{"ratio": ratios})
	l.RatioMean, l.RatioMost, l.Mismatch = u.RatioMean, u.RatioMost, u.Mismatch
	return &l
}
