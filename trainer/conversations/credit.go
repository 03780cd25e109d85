package conversations

import (
	"math"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
)

// Credit implements model.Model.
func (m *Model) Credit(samples []trainer.Sample, totals []float64, b advantage.Batch, by advantage.Estimator) ([]float64, error) {
	a, err := m.compared(samples, b, by)
	if err != nil {
		return nil, err
	}
	if err := m.judgeMasked(samples); err != nil {
		return nil, err
	}
	return a, m.creditTokens(samples, a, totals)
}

// compared are the advantages of whole episodes: among their group, and, where they grew on trees, among their tree.
func (m *Model) compared(samples []trainer.Sample, b advantage.Batch, by advantage.Estimator) (a []float64, err error) {
	s := m.turn.Episode.Tree
	if s == nil {
		a, _, err = by.Advantages(b)
		return a, err
	}
	var trees []int
	for _, one := range samples {
		tree, _ := s.Of(one.Key.Sample)
		trees = append(trees, one.Key.Prompt*s.Trees+tree)
	}
	a, _, err = by.InTrees(b, trees)
	return a, err
}

// creditTokens spreads what episodes earned over their tokens, where advantages of samples are not all
// there is to it: rewards to come (REINFORCE++), whitening over all tokens.
func (m *Model) creditTokens(samples []trainer.Sample, advantages, totals []float64) error {
	c := m.turn.Advantage.Credit
	turns := m.turn.Advantage.Turns
	if c.Spreads() && !c.Whiten.On && turns == nil {
		return nil
	}
	rows := advantage.Tokens{Outcome: advantages}
	for _, s := range samples {
		rows.Groups = append(rows.Groups, s.Key.Prompt)
		mask := make([]float64, EpisodeOf(s).Length())
		for k, step := range s.Decisions.Step {
			if s.Decisions.Trained[k] {
				mask[step-EpisodeOf(s).Prompt] = 1
			}
		}
		rows.Mask = append(rows.Mask, mask)
	}
	if c.ToCome() {
		if err := m.baselines(&rows, samples, totals); err != nil {
			return err
		}
		rows.Rewards = advantage.AtEnd(totals, rows.Mask, nil, 0)
	}
	of, returns, err := c.Of(rows)
	if err != nil {
		return err
	}
	if turns != nil {
		if err := addTurns(*turns, of, samples, totals); err != nil {
			return err
		}
	}
	for i := range samples {
		d := &samples[i].Decisions
		d.Advantage = perDecision(samples[i], of[i])
		if rows.Values != nil {
			d.Value, d.Return = perDecision(samples[i], rows.Values[i]), perDecision(samples[i], returns[i])
		}
		if (c.ToCome() || turns != nil) && !math.IsNaN(advantages[i]) {
			advantages[i] = mean(d.Advantage) // what is told of the sample, and whether it teaches anything
		}
	}
	return nil
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(max(1, len(x)))
}

// perDecision are an answer's numbers at what the model chose.
func perDecision(s trainer.Sample, row []float64) []float64 {
	var out []float64
	for _, step := range s.Decisions.Step {
		out = append(out, row[step-EpisodeOf(s).Prompt])
	}
	return out
}
