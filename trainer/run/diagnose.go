package run

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/diagnosis"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// A check compares rollout and training before the first update of a stage. A diagnosis says why a reward may stay
// flat, by numbers of the run's first iteration, which are in a file of their own. Nothing of the run depends on it.

// checkPolicy has the model check itself on samples that it just made, as a stage begins, and reports the result. It
// returns why the iteration is to be the last, where a clip range is below the noise floor; "": it is not.
func (l *loop) checkPolicy(it iteration, samples []trainer.Sample) (c *ledger.Check, last string, err error) {
	c, err = l.model.Check(l.trainer.Objective, samples)
	if err != nil || c == nil {
		return c, "", err
	}
	l.Logf("iteration %d: %s", it.number+1, checkWords(c, it.settings.Episode != nil))
	if c.Floor == nil || c.ClipRange == 0 || *c.Floor <= c.ClipRange {
		return c, "", nil
	}
	why := fmt.Sprintf("rounding to %s moves log-probabilities further than the clip lets them go", l.Model.Precision)
	if it.settings.Episode != nil {
		why = "the engine's log-probabilities lie further from the trainer's than the clip lets an update move them"
	}
	says := fmt.Sprintf("clip_range = %.3g is below the noise floor, %.3g: %s", c.ClipRange, *c.Floor, why)
	if it.settings.Loss.NoiseFloor == "stop" {
		return c, says, nil
	}
	l.Logf("warning: iteration %d: %s", it.number+1, says)
	return c, "", nil
}

// checkWords are a check for people.
func checkWords(c *ledger.Check, tokens bool) string {
	of := "transitions"
	if tokens {
		of = "tokens"
	}
	s := fmt.Sprintf("before the first update the ratio is %v on %d %s", c.Ratio, c.Transitions, of)
	if c.Floor != nil {
		s += fmt.Sprintf(", the noise floor %.3g", *c.Floor)
	}
	switch {
	case c.ClipRange > 0 && c.Floor != nil && *c.Floor <= c.ClipRange:
		s += fmt.Sprintf(", below clip_range %.3g: fine", c.ClipRange)
	case c.ClipRange > 0:
		s += fmt.Sprintf(" (clip_range %.3g)", c.ClipRange)
	}
	return s
}

// A drifting model measures how far updates moved the decisions that they were made by.
type drifting interface {
	// Drift are log-ratios of some decisions, by the weights as they are now.
	Drift(o trainer.Objective, samples []trainer.Sample) ([]float64, error)
}

// diagnose is called after the first iteration's updates.
func (l *loop) diagnose(it iteration, of *rollout, line *ledger.Line, r *trainer.Report) error {
	if l.trainer.Iteration != 1 || len(r.Samples) == 0 || it.settings.Supervised() || it.settings.Rollout.Group < 2 {
		return nil
	}
	m := diagnosis.Measured{Group: it.settings.Rollout.Group, Groups: len(line.Prompts), Dead: line.Dead, Spread: line.Spread, Noise: of.deviation,
		Apart: !it.settings.ComparesGroups(), Free: !it.settings.Kind().Has(loss.Advantages), Conversations: it.settings.Episode != nil, Eps: l.trainer.Optim.Eps, Rate: l.trainer.Optim.LR}
	if it.settings.Combination().Adds() && !it.settings.Advantage.EachReward() {
		var err error
		if m.Parts, err = partsOf(it.settings.Combination(), of.promptsOf(r.Samples), r.Samples, of.scored); err != nil {
			return err
		}
	}
	if err := l.policyFacts(it, of.check, &m, r); err != nil {
		return err
	}
	d := diagnosis.Report{Measured: m, Findings: m.Findings()}
	for _, f := range d.Findings {
		if f.Cause == "clip" && m.Floor != nil && *m.Floor > m.Clip { // a warning of checkPolicy
			continue
		}
		l.Logf("the reward may stay flat: %s", f)
	}
	return l.folder.WriteJSON(diagnosis.File, d)
}

// partsOf are the terms of a total of several rewards, with the weights of the samples' prompts, by their deviation
// inside groups; nil of one reward.
func partsOf(c rewards.Combination, list []prompts.Prompt, samples []trainer.Sample, scored *scores) (all []diagnosis.Part, err error) {
	if len(c.Parts) < 2 || scored == nil || len(scored.trained) != len(c.Parts) || len(scored.trained[0]) != len(samples) {
		return nil, nil
	}
	terms, err := c.Each(scored.trained)
	if err != nil {
		return nil, err
	}
	for i, p := range list {
		weights, err := c.WeightsFor(p.Weights)
		if err != nil {
			return nil, err
		}
		for k := range terms {
			terms[k][i] *= weights[k]
		}
	}
	groups := trainer.Groups(samples)
	for k, term := range terms {
		_, spread := ledger.Within(groups, members(samples, term))
		all = append(all, diagnosis.Part{Name: c.Parts[k].Name, Spread: spread})
	}
	return all, nil
}

// policyFacts are the facts where probabilities are compared.
func (l *loop) policyFacts(it iteration, check *ledger.Check, m *diagnosis.Measured, r *trainer.Report) error {
	if check == nil {
		return nil
	}
	if check.Floor != nil {
		m.Floor = ledger.Number(*check.Floor)
	}
	if !it.settings.OnPolicy() { // else nothing is clipped
		m.Clip = check.ClipRange
	}
	if it.settings.Kind().Steps != nil && it.settings.Episode == nil {
		keeps, err := it.settings.Keeps()
		if err != nil {
			return fmt.Errorf("working out what steps keep of the gradient: %w", err)
		}
		m.Keeps = keeps
	}
	if len(r.Updates) == 0 {
		return nil
	}
	if n := l.moved(); n > 0 {
		m.Element = ledger.Number(r.Updates[0].Norm / math.Sqrt(n))
	}
	if model, ok := l.own().(drifting); ok {
		logs, err := model.Drift(l.trainer.Objective, r.Samples)
		if err != nil {
			return fmt.Errorf("measuring how far the first updates moved the policy: %w", err)
		}
		if m.Ratios = diagnosis.RatiosOf(logs, m.Clip); m.Ratios != nil && ledger.Number(m.Ratios.Moved) == nil {
			l.Logf("warning: iteration %d: its updates moved log-probabilities by %v: the policy is broken", l.trainer.Iteration, m.Ratios.Moved)
			m.Ratios = nil
		}
	}
	return nil
}

// moved is how many numbers an update moves.
func (l *loop) moved() (n float64) {
	for _, p := range l.model.Moved() {
		n += float64(p.Len())
	}
	return n
}
