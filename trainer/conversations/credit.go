package conversations

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/conversations/rollout"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// Card: the worth of an answer behind masked pictures (PAPO, verl/trainer/papo_utils.py of its code; the loss is
// package loss's Perception). A picture is cut into squares of Patch pixels from its upper left corner; each is black
// with probability Share. Tools' pictures are made again from the masked ones; upstream has no tools. Clips, and
// pictures that a program drew, stay as they are. A prompt's pictures are masked in the same places for its whole
// group, in each iteration anew; upstream draws them for each row of a batch before it is repeated, which is the
// same. It is computed once, before the first update; an episode of rollout.buffer keeps it.
//
// Invariants (tests): a patch is black as a whole or untouched; answers on unmasked pictures have the bits of the
// roll; the key decides which patches.

// judgeMasked masks where the loss needs it.
func (m *Model) judgeMasked(samples []trainer.Sample) error {
	o := m.settings.Loss.Perception
	if !o.On() || m.settings.Kind().Written() {
		return nil
	}
	return m.Masked(samples, o)
}

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
	s := m.settings.Episode.Tree
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

// creditTokens spreads episodes' rewards over their tokens, where advantages of samples are not enough: rewards to
// come (REINFORCE++), whitening over all tokens.
func (m *Model) creditTokens(samples []trainer.Sample, advantages, totals []float64) error {
	c := m.settings.Advantage.Credit
	turns := m.settings.Advantage.Turns
	if c.Spreads() && !c.Whiten.On && turns == nil {
		return nil
	}
	rows := advantage.Tokens{Outcome: advantages}
	for _, s := range samples {
		rows.Groups = append(rows.Groups, s.Key.Prompt)
		mask := make([]float64, rollout.EpisodeOf(s).Length())
		for k, step := range s.Decisions.Step {
			if s.Decisions.Trained[k] {
				mask[step-rollout.EpisodeOf(s).Prompt] = 1
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
			advantages[i] = mean(d.Advantage) // as the ledger has it, and whether there is a gradient
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

// perDecision are an answer's numbers at the tokens that the model chose.
func perDecision(s trainer.Sample, row []float64) []float64 {
	var out []float64
	for _, step := range s.Decisions.Step {
		out = append(out, row[step-rollout.EpisodeOf(s).Prompt])
	}
	return out
}

// Turns of episodes as [advantage.turns] compares them. An episode begins in its prompt's state; the state of a later
// turn is the observation of the turn before it: the tokens, and the pixels of the pictures among them.

// addTurns adds to the tokens of every turn, a row an episode, the turn's advantage among those of its state.
func addTurns(t advantage.Turns, tokens [][]float64, samples []trainer.Sample, totals []float64) error {
	var visits []advantage.Visit
	for i, s := range samples {
		e := rollout.EpisodeOf(s)
		for k := range e.Turns {
			v := advantage.Visit{Episode: i, Prompt: s.Key.Prompt, State: turnState(e, k)}
			if k == len(e.Turns)-1 || math.IsNaN(totals[i]) {
				v.Reward = totals[i]
			}
			visits = append(visits, v)
		}
	}
	a, err := t.Of(visits)
	if err != nil {
		return err
	}
	at := 0
	for i, s := range samples {
		e := rollout.EpisodeOf(s)
		for _, turn := range e.Turns {
			for k := turn.From; k < turn.To; k++ {
				tokens[i][k-e.Prompt] += a[at]
			}
			at++
		}
	}
	return nil
}

// turnState is the state in which a turn begins.
func turnState(e *rollout.Episode, turn int) string {
	if turn == 0 {
		return ""
	}
	before := e.Turns[turn-1]
	var b strings.Builder
	fmt.Fprint(&b, e.Tokens[before.To:before.Observed])
	for _, shot := range e.Shots {
		if shot.Turn == turn-1 {
			b.WriteString(" " + shot.Hash)
		}
	}
	return b.String()
}

// Baselines of tokens' rewards other than their group: a head of values (gae), or the likeliest answer to the same
// prompt (remax).

// hasCritic reports whether any stage learns with a head of values.
func hasCritic(e *experiment.Experiment) bool {
	return slices.ContainsFunc(e.EachStage(), func(at *experiment.Experiment) bool { return at.Comparison().ValueHead })
}

// setValueRate sets how a head of values learns in an iteration; its learning rate is multiplied with scale.
func (m *Model) setValueRate(settings experiment.Settings, scale float64) {
	if m.ValueLearner() == nil {
		return
	}
	v := settings.Loss.Value
	m.SetValueRate(v.LR*scale, v.GradClip)
	m.ValueHeadOnly = settings.Comparison().ValueHead && settings.Iteration < v.Warmup
}

// baselines fills in the estimator's baselines of rewards to come. Samples of a prompt whose likeliest answer has no
// score have none either: they are missing.
func (m *Model) baselines(rows *advantage.Tokens, samples []trainer.Sample, totals []float64) error {
	switch kind := m.settings.Comparison(); {
	case kind.ValueHead:
		values, err := m.Policy.Values(samples)
		if err != nil {
			return err
		}
		for i, s := range samples {
			row := make([]float64, len(rows.Mask[i]))
			for k, step := range s.Decisions.Step {
				row[step-rollout.EpisodeOf(s).Prompt] = values[i][k]
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

// greedy is the reward of the likeliest answer to each prompt of some samples, by the weights that rolled them.
func (m *Model) greedy(samples []trainer.Sample) (map[int]float64, error) {
	p := *m.Policy
	p.Sampling.TopK, p.Sampling.TopP, p.Sampling.MinP, p.Progress, p.Noise, p.Guided, p.Given, p.Tree, p.Engine = 1, 1, 0, nil, nil, nil, nil, nil, nil
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
