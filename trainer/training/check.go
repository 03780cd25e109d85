package training

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/rollout"
)

// Before a stage's first samples are learned from, some of their transitions are judged again by
// the weights that made them:
//
//	ratio        by the trainer's own path: it must be exactly 1, or the run stops
//	noise floor  by the network in fp32, with the same weights: the root mean square over
//	             transitions of (log-probability - that in fp32). A clip range below it cuts
//	             samples by rounding and not by what they are worth
//
// Both stand in the ledger's line of that iteration.

// Check is what was found.
type Check struct {
	Transitions int      `json:"transitions"`
	Ratio       float64  `json:"ratio"`                 // the furthest from 1
	Floor       *float64 `json:"noise_floor,omitempty"` // where it was measured
	ClipRange   float64  `json:"clip_range,omitempty"`  // that it is compared with
}

// mostChecked is how many transitions are judged, over all steps alike.
const mostChecked = 32

// A transition is a decision of a sample.
type transition struct{ sample, decision, step int }

// checkPolicy checks the policy on samples that it just made.
func (t *Training) checkPolicy(samples []trainer.Sample) error {
	o, ok := t.loop.Objective.(trainer.Decided)
	if !ok {
		return nil // which compares no probabilities
	}
	passes := t.model.policy.Passes
	defer func() { t.model.policy.Passes = passes }() // these are not training's
	at := chosen(samples)
	t.check = &Check{Transitions: len(at), Ratio: 1}
	differences, err := logProbsBy(t.model.policy, o, samples, at)
	if err != nil {
		return fmt.Errorf("checking the policy: %w", err)
	}
	for _, d := range differences {
		if r := portable.Exp(-d); math.Abs(r-1) > math.Abs(t.check.Ratio-1) || math.IsNaN(r) {
			t.check.Ratio = r
		}
	}
	if t.check.Ratio != 1 {
		return fmt.Errorf("the policy gives its own samples the ratio %v before anything is trained, not 1: rollout and training disagree\nhint: nothing was learned; this is a mistake in the program, and DARKROOM_CPU=plain may avoid it", t.check.Ratio)
	}
	if t.turn.Loss.NoiseFloor == "off" {
		return nil
	}
	return t.checkFloor(o, samples, at)
}

// checkFloor compares with fp32.
func (t *Training) checkFloor(o trainer.Decided, samples []trainer.Sample, at []transition) error {
	floor := 0.0
	if t.model.opened.Precision != pipeline.F32 {
		err := t.model.inF32(func(p *rollout.Pictures) error {
			differences, err := logProbsBy(p, o, samples, at)
			for _, d := range differences {
				floor += d * d / float64(len(differences))
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("measuring the noise floor: %w\nhint: loss.noise_floor = \"off\" leaves it out", err)
		}
	}
	floor = math.Sqrt(floor)
	t.check.Floor = &floor
	l := t.turn.Loss
	if l.Objective != "clip" || l.Ratio != "plain" {
		return nil // whose range is of another quantity
	}
	t.check.ClipRange = l.ClipRange
	if floor <= l.ClipRange {
		return nil
	}
	says := fmt.Sprintf("clip_range = %.3g is below the noise floor, %.3g: rounding to %s moves log-probabilities further than the clip lets them go", l.ClipRange, floor, t.Model.Precision)
	if l.NoiseFloor == "stop" {
		t.halt = says
		return nil
	}
	t.Say("warning: iteration %d: %s", t.loop.Iteration+1, says)
	return nil
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
func logProbsBy(p *rollout.Pictures, o trainer.Decided, samples []trainer.Sample, at []transition) ([]float64, error) {
	points := make([]trainer.Point, len(at))
	for i, a := range at {
		d := samples[a.sample].Decisions
		points[i] = trainer.Point{Key: samples[a.sample].Key, State: d.State[a.decision], Time: d.Time[a.decision]}
	}
	answers, err := p.Eval(trainer.Current, points)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(at))
	for i, a := range at {
		d := samples[a.sample].Decisions
		if a.step >= len(o.Rows) {
			return nil, fmt.Errorf("step %d of a sampler with %d", a.step, len(o.Rows))
		}
		out[i] = d.LogProb[a.decision] - trainer.LogProb(o.Rows[a.step], d.State[a.decision], answers.Outputs[i], d.Choice[a.decision])
	}
	return out, nil
}

// inF32 lends a twin of the policy, in fp32 and with the same weights.
func (m *model) inF32(use func(p *rollout.Pictures) error) (err error) {
	o := m.opened
	o.Pool, o.Precision = tensor.NewPool(o.Pool.Backend()), pipeline.F32
	twin, err := pipeline.Open(m.pipeline.Dir(), o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, twin.Close()) }()
	params, err := twin.Denoiser()
	if err != nil {
		return err
	}
	if m.adapters != nil {
		if _, err := params.AddLoRA(m.lora); err != nil {
			return err
		}
	}
	own, _, _ := m.policy.State()
	theirs := params.Trained()
	if len(own) != len(theirs) {
		return fmt.Errorf("%d parameters are trained, and %d in fp32", len(own), len(theirs))
	}
	for i, p := range own {
		theirs[i].Value.UploadF32(p.Value.F32())
		theirs[i].Updated()
	}
	p := m.policy.Twin(twin)
	defer p.Free()
	return use(p)
}
