package run

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/diagnosis"
	"github.com/darkroom-rl/darkroom/trainer/ledger"
)

// Why a reward may stay flat, by numbers of the run's first iteration. They stand in a file of their own, and what they
// show is said. Nothing of the run depends on them.

// A drifting model says how far updates moved the decisions that they were made by.
type drifting interface {
	// Drift are log-ratios of some decisions, by the weights as they are now.
	Drift(o trainer.Objective, samples []trainer.Sample) ([]float64, error)
}

// diagnose is called after the first iteration's updates.
func (t *training) diagnose(l *ledger.Line, r *trainer.Report) error {
	if t.loop.Iteration != 1 || len(r.Samples) == 0 || t.now.turn.Taught() || t.now.turn.Rollout.Group < 2 {
		return nil
	}
	m := diagnosis.Measured{Group: t.now.turn.Rollout.Group, Groups: len(l.Prompts), Dead: l.Dead, Spread: l.Spread, Noise: t.now.twice,
		Apart: !t.now.turn.ComparesGroups(), Free: t.now.turn.Kind().Free, Spoken: t.now.turn.Episode != nil, Eps: t.loop.Optim.Eps, Rate: t.loop.Optim.LR}
	if err := t.policyFacts(&m, l, r); err != nil {
		return err
	}
	d := diagnosis.Report{Measured: m, Findings: m.Findings()}
	for _, f := range d.Findings {
		t.Say("the reward may stay flat: %s", f)
	}
	return t.files.folder.WriteJSON(diagnosis.File, d)
}

// policyFacts are what is known where probabilities are compared.
func (t *training) policyFacts(m *diagnosis.Measured, l *ledger.Line, r *trainer.Report) error {
	if t.now.check == nil {
		return nil
	}
	if t.now.check.Floor != nil {
		m.Floor = ledger.Number(*t.now.check.Floor)
	}
	if !t.now.turn.OnPolicy() { // else nothing is clipped
		m.Clip = t.now.check.ClipRange
	}
	if t.now.turn.Kind().Steps != nil && t.now.turn.Episode == nil {
		keeps, err := t.now.turn.Keeps()
		if err != nil {
			return fmt.Errorf("working out what steps keep of the gradient: %w", err)
		}
		m.Keeps = keeps
	}
	if len(r.Updates) == 0 {
		return nil
	}
	if n := t.moved(); n > 0 {
		m.Element = ledger.Number(r.Updates[0].Norm / math.Sqrt(n))
	}
	if model, ok := t.own().(drifting); ok {
		logs, err := model.Drift(t.loop.Objective, r.Samples)
		if err != nil {
			return fmt.Errorf("measuring how far the first updates moved the policy: %w", err)
		}
		if m.Ratios = diagnosis.RatiosOf(logs, m.Clip); m.Ratios != nil && ledger.Number(m.Ratios.Moved) == nil {
			t.Say("warning: iteration %d: its updates moved log-probabilities by %v: the policy is broken", t.loop.Iteration, m.Ratios.Moved)
			m.Ratios = nil
		}
	}
	return nil
}

// moved is how many numbers an update moves.
func (t *training) moved() (n float64) {
	for _, p := range t.model.Moved() {
		n += float64(p.Value.Len())
	}
	return n
}

// askTwice asks the rewards again about what they just judged, where the caller wants to know how sure they are.
func (t *training) askTwice(samples []trainer.Sample, first *scores) error {
	if !t.Twice || t.loop.Iteration > 0 || t.now.twice != nil {
		return nil
	}
	a := newRequests(t.ctx)
	defer a.close()
	again, _, err := t.scoresOf(samples, a)
	if err != nil {
		return err
	}
	squares, n := 0.0, 0.0
	for i, v := range first.total {
		if d := v - again.total[i]; !math.IsNaN(d) {
			squares, n = squares+float64(d*d)/2, n+1 // exact: half of a rounded square
		}
	}
	if n > 0 {
		t.now.twice = ledger.Number(math.Sqrt(squares / n))
	}
	return nil
}
