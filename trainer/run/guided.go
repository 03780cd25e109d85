package run

import (
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
)

// How much of a solution an iteration gives ([episode.guided], prompts.Guided): the iteration is told before it rolls,
// and the run learns from its scores behind it.

// give tells a turn how much.
func (t *training) give(turn *experiment.Turn) {
	if t.Episode == nil || t.Episode.Guided == nil {
		return
	}
	if t.state.Guidance == nil {
		t.state.Guidance = t.Episode.Guided.New()
	}
	turn.Given = t.state.Guidance.Tokens
}

// guided takes in the scores of an iteration's samples, guided ones too.
func (t *training) guided() {
	if t.Episode == nil || t.Episode.Guided == nil || t.now.scored == nil {
		return
	}
	s := ledger.SpreadOf(t.now.scored.numbers(t.GuidedBy()))
	t.Episode.Guided.Learn(t.state.Guidance, s.Mean)
}
