package pictures

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/record/ledger"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// Before a stage's first samples are learned from, some of their transitions are judged again by
// the weights that made them:
//
//	ratio        by the trainer's own path: it must be exactly 1, or the run stops
//	noise floor  by the network in fp32, with the same weights: the root mean square over
//	             transitions of (log-probability - that in fp32). A clip range below it cuts
//	             samples by rounding and not by their advantages
//
// Invariants (tests): the check takes no more memory than training; its numbers do not depend on how it keeps to
// that. Both stand in the ledger's line of that iteration; the run decides on the consequences.

// mostChecked is how many transitions are judged, over all steps alike.
const mostChecked = 32

// A transition is a decision of a sample.
type transition struct{ sample, decision, step int }

// Check implements model.Model.
func (m *Model) Check(o trainer.Objective, samples []trainer.Sample) (*ledger.Check, error) {
	objective, ok := o.(trainer.PolicyGradient)
	if !ok {
		return nil, nil // which compares no probabilities
	}
	passes, known := m.Policy.Passes, m.Policy.known
	m.Policy.known = recalled{}                                        // the network is asked again
	defer func() { m.Policy.Passes, m.Policy.known = passes, known }() // these are not training's
	at := chosen(samples)
	found := &ledger.Check{Transitions: len(at), Ratio: 1}
	differences, err := logProbsBy(m.Policy, objective, samples, at)
	if err != nil {
		return found, fmt.Errorf("checking the policy: %w", err)
	}
	for _, d := range differences {
		if r := portable.Exp(-d); math.Abs(r-1) > math.Abs(found.Ratio-1) || math.IsNaN(r) {
			found.Ratio = r
		}
	}
	if found.Ratio != 1 {
		return found, fmt.Errorf("the policy gives its own samples the ratio %v before anything is trained, not 1: rollout and training disagree\nhint: nothing was learned; this is a mistake in the program, and DARKROOM_CPU=plain may avoid it", found.Ratio)
	}
	if !m.settings.MeasuresFloor() {
		return found, nil
	}
	floor, err := m.noiseFloor(objective, samples, at)
	if err != nil {
		return found, fmt.Errorf("measuring the noise floor: %w\nhint: loss.noise_floor = \"off\" leaves it out", err)
	}
	found.Floor = &floor
	if l := m.settings.Loss; m.settings.Kind().Has(loss.BareRatio) && l.Ratio == "plain" && !m.settings.OnPolicy() { // ranges of other ratios are of other quantities
		found.ClipRange = l.ClipRange
	}
	return found, nil
}

// Drift is how far updates moved the decisions that they were made by: log-ratios of some of them.
func (m *Model) Drift(o trainer.Objective, samples []trainer.Sample) ([]float64, error) {
	objective, ok := o.(trainer.PolicyGradient)
	if !ok {
		return nil, nil
	}
	passes := m.Policy.Passes
	defer func() { m.Policy.Passes = passes }()
	logs, err := logProbsBy(m.Policy, objective, samples, chosen(samples))
	for i, d := range logs {
		logs[i] = -d
	}
	return logs, err
}

// noiseFloor compares with fp32.
func (m *Model) noiseFloor(o trainer.PolicyGradient, samples []trainer.Sample, at []transition) (float64, error) {
	floor := 0.0
	if m.opened.Precision == pipeline.F32 {
		return floor, nil
	}
	err := m.inF32(func(p *Policy) error {
		differences, err := logProbsBy(p, o, samples, at)
		for _, d := range differences {
			floor += d * d / float64(len(differences))
		}
		return err
	})
	return math.Sqrt(floor), err
}

// chosen are some transitions that may be judged, step after step.
func chosen(samples []trainer.Sample) []transition {
	var all []transition
	for i, s := range samples {
		for k, trained := range s.Decisions.Trained {
			if trained {
				all = append(all, transition{i, k, s.Decisions.Step[k]})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b transition) int { return a.step - b.step })
	n := min(len(all), mostChecked)
	some := make([]transition, n)
	for i := range some {
		some[i] = all[i*len(all)/n]
	}
	return some
}

// logProbsBy is how far the recorded log-probabilities lie above those that a policy gives now.
func logProbsBy(p *Policy, o trainer.PolicyGradient, samples []trainer.Sample, at []transition) ([]float64, error) {
	points := make([]trainer.Point, len(at))
	for i, a := range at {
		d := samples[a.sample].Decisions
		points[i] = trainer.Point{Key: samples[a.sample].Key, State: d.State[a.decision], Time: d.Time[a.decision]}
	}
	var forward trainer.Forward
	err := p.Attempt(func() (err error) {
		forward, err = p.Eval(trainer.Current, points)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(at))
	for i, a := range at {
		d := samples[a.sample].Decisions
		if a.step >= len(o.Rows) {
			return nil, fmt.Errorf("step %d of a sampler with %d", a.step, len(o.Rows))
		}
		out[i] = d.LogProb[a.decision] - trainer.LogProb(o.Row(samples[a.sample].Key, a.step), d.State[a.decision], forward.Outputs[i], d.Action[a.decision])
	}
	return out, nil
}

// inF32 lends a twin of the policy, in fp32 and with the same weights. It may take no more memory than training: frozen
// matrices are read anew for every product (nn.Options.Home), other values are shared, half as many pictures go
// through it at once, since activations are twice as wide, and nothing is recorded.
func (m *Model) inF32(use func(p *Policy) error) error {
	m.drop()
	m.Pipeline.Pool.Trim()
	return m.learner.Whole(func() error { return m.twinInF32(use) })
}

func (m *Model) twinInF32(use func(p *Policy) error) (err error) {
	o := m.opened
	o.Precision, o.Memory.Home, o.Memory.Tight = pipeline.F32, nn.Disk, true
	for i := range m.Pipeline.Experts() {
		own, err := m.Pipeline.Network(i)
		if err != nil {
			return err
		}
		o.Memory.Values[i] = map[string]*tensor.Tensor{}
		for _, p := range own.All() {
			if p.Value != nil && p.Value.DType() == kernels.F32 {
				o.Memory.Values[i][p.Name] = p.Value
			}
		}
	}
	twin, err := pipeline.Open(m.Pipeline.Dir(), o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, twin.Close()) }()
	if err := m.adaptTwin(twin); err != nil {
		return err
	}
	p := m.Policy.Twin(twin)
	defer p.Free()
	return use(p)
}

// adaptTwin puts adapters of the same shapes on another pipeline's networks.
func (m *Model) adaptTwin(twin *pipeline.Pipeline) error {
	networks, err := openNetworks(twin)
	if err != nil {
		return err
	}
	for i, a := range m.adapters {
		if _, err := a.PutOn(networks[i].Params); err != nil {
			return err
		}
	}
	return nil
}
