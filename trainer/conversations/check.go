package conversations

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations/rollout"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// Card: before a stage's first episodes are learned from, some of them go through the trainer's own forward pass again.
//
//	ratio        of the log-probabilities that objectives compare with: it must be exactly 1, or the run stops
//	noise floor  the root mean square over tokens of (the sampler's log-probability - the trainer's). The decoder here
//	             computes the forward pass: 0. An engine from outside has an arithmetic of its own, and
//	             the floor is over all of its episodes
//
// An engine's floor enters no ratio, since old log-probabilities are computed here (engine.go). [loss.correction]
// weighs it, and it is compared with the clip range: beyond that, an engine errs by more than an update may move a
// token. Of episodes with distorted pictures nothing is checked: they are trained on with other pictures.
//
// Invariants (tests): 0 of the decoder, and above 0 of an engine that rounds otherwise; log-probabilities that are not
// the trainer's stop the run.

// maxChecked is how many episodes go through the network again.
const maxChecked = 4

// Check implements model.Model.
func (m *Model) Check(_ trainer.Objective, samples []trainer.Sample) (*ledger.Check, error) {
	var able []trainer.Sample
	for _, s := range samples {
		if e := rollout.EpisodeOf(s); e != nil && e.Lost == nil && e.Noise == nil && len(s.Decisions.Step) > 0 {
			able = append(able, s)
		}
	}
	if len(able) == 0 {
		return nil, nil
	}
	found := &ledger.Check{Ratio: 1}
	n := min(len(able), maxChecked)
	err := m.Learner.With(trainer.Current, func() error {
		for i := range n {
			if err := m.scoreAgain(able[i*len(able)/n], found); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return found, fmt.Errorf("checking the policy: %w", err)
	}
	if found.Ratio != 1 {
		return found, fmt.Errorf("the policy gives tokens of its own episodes the ratio %v before anything is trained, not 1: rollout and training disagree\nhint: nothing was learned; this is a mistake in the program, and DARKROOM_CPU=plain may avoid it", found.Ratio)
	}
	if !m.settings.MeasuresFloor() {
		return found, nil
	}
	floor := 0.0
	if m.Engine != nil {
		floor = samplerGap(able)
	}
	found.Floor = &floor
	if m.settings.Kind().Has(loss.BareRatio) {
		found.ClipRange = m.settings.Loss.ClipRange
	}
	return found, nil
}

// scoreAgain counts an episode's tokens, and keeps the ratio that is furthest from 1.
func (m *Model) scoreAgain(s trainer.Sample, found *ledger.Check) error {
	all, err := m.LogProbs(s)
	if err != nil {
		return fmt.Errorf("sample %d of prompt %d: %w", s.Key.Sample, s.Key.Prompt, err)
	}
	for k, now := range all {
		found.Transitions++
		if r := portable.Exp(now - s.Decisions.LogProb[k]); math.Abs(r-1) > math.Abs(found.Ratio-1) || math.IsNaN(r) {
			found.Ratio = r
		}
	}
	return nil
}

// samplerGap is the distance between a sampler's log-probabilities and those computed here, root mean square.
func samplerGap(samples []trainer.Sample) float64 {
	var theirs, ours []float64
	for _, s := range samples {
		for k, at := range s.Decisions.Step {
			theirs, ours = append(theirs, rollout.EpisodeOf(s).Drawn(at)), append(ours, s.Decisions.LogProb[k])
		}
	}
	return rollout.RMSDifference(theirs, ours)
}
