package training

import (
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/rollout"
)

// NoisyLine is what the ledger says of samples that saw distorted pictures (NoisyRollout): how
// likely what they said is on the clean ones, over how likely it was when it was drawn. Where
// episode.noisy.old is "rolled", this is by intent the first ratio that the update sees, and not 1.
type NoisyLine struct {
	Samples   int     `json:"samples"`
	Step      int     `json:"step"` // of the noise, of 1000
	Expected  bool    `json:"ratio_expected"`
	RatioMean float64 `json:"ratio_mean"`
	RatioMost float64 `json:"ratio_most"` // the furthest from 1
	Mismatch  float64 `json:"mismatch"`   // root mean square of log-ratios
}

// distort says which keys of an iteration see distorted pictures.
func (m *model) distort(turn experiment.Turn) {
	n := turn.Episode.Noisy
	if n == nil {
		return
	}
	step, first := rollout.NoiseStep(*n, turn.Iteration+1, turn.Run.Iterations), turn.Rollout.Group-n.Of(turn.Rollout.Group)
	m.talk.Clean = n.Old == "clean"
	m.talk.Noise = func(k trainer.Key) int {
		if k.Sample < first {
			return -1
		}
		return step
	}
}

// noisy is the line of an iteration; nil where nothing was distorted.
func noisy(samples []trainer.Sample, expected bool) *NoisyLine {
	l := NoisyLine{Expected: expected}
	var ratios []float64
	for _, s := range samples {
		e := s.Item.Episode
		if e == nil || e.Noise == nil {
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
	u := update(trainer.Update{Blame: trainer.Blame{Metrics: map[string][]float64{"ratio": ratios}}})
	l.RatioMean, l.RatioMost, l.Mismatch = u.RatioMean, u.RatioMost, u.Mismatch
	return &l
}
