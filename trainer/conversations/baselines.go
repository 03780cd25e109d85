package conversations

import (
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// What tokens' rewards are compared with where it is not their group: a head of values (gae), or
// the likeliest answer to the same prompt (remax).

// hasCritic reports whether any stage learns with a head of values.
func hasCritic(e *experiment.Experiment) bool {
	return slices.ContainsFunc(e.Turns(), func(at *experiment.Experiment) bool { return at.Comparison().ValueHead })
}

// pace sets how a head of values learns in an iteration; its learning rate is multiplied with scale.
func (m *Model) pace(turn experiment.Turn, scale float64) {
	if m.Critic() == nil {
		return
	}
	v := turn.Loss.Value
	m.Pace(v.LR*scale, v.GradClip)
	m.ValueHeadOnly = turn.Comparison().ValueHead && turn.Iteration < v.Warmup
}

// baselines fills in what the estimator takes from rewards to come. Samples of a prompt whose
// likeliest answer has no score have none either: they are missing.
func (m *Model) baselines(rows *advantage.Tokens, samples []trainer.Sample, totals []float64) error {
	switch kind := m.turn.Comparison(); {
	case kind.ValueHead:
		values, err := m.Policy.Values(samples)
		if err != nil {
			return err
		}
		for i, s := range samples {
			row := make([]float64, len(rows.Mask[i]))
			for k, step := range s.Decisions.Step {
				row[step-EpisodeOf(s).Prompt] = values[i][k]
			}
			rows.Values = append(rows.Values, row)
		}
	case kind.GreedyAnswer:
		worth, err := m.greedy(samples)
		if err != nil {
			return fmt.Errorf("the likeliest answers: %w", err)
		}
		for i, s := range samples {
			if rows.Greedy = append(rows.Greedy, worth[s.Key.Prompt]); math.IsNaN(worth[s.Key.Prompt]) {
				totals[i] = math.NaN()
			}
		}
	}
	return nil
}

// greedy is what the likeliest answer to each prompt of some samples earns, by the weights that
// rolled them.
func (m *Model) greedy(samples []trainer.Sample) (map[int]float64, error) {
	p := *m.Policy
	p.Sampling.TopK, p.Sampling.TopP, p.Sampling.MinP, p.Progress, p.Noise, p.Guided, p.Given, p.Tree, p.Far = 1, 1, 0, nil, nil, nil, nil, nil, nil
	var keys []trainer.Key
	for _, g := range trainer.Groups(samples) {
		k := samples[g[0]].Key
		keys = append(keys, trainer.Key{Iteration: k.Iteration, Prompt: k.Prompt})
	}
	rolled, err := p.Roll(trainer.Current, keys)
	if err != nil {
		return nil, err
	}
	totals, err := m.rewards.Totals(rolled)
	if err != nil {
		return nil, err
	}
	m.likely = ledger.SpreadOf(totals)
	worth := map[int]float64{}
	for i, k := range keys {
		worth[k.Prompt] = totals[i]
	}
	return worth, nil
}
