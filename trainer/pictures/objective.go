package pictures

import (
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/model"
)

// unit is the networks' time input at time 1.
const unit = 1000

// Objective is model.Model's. An objective's inputs are in its value of package loss.
func (m *Model) Objective(settings experiment.Settings, policy trainer.Policy) (trainer.Objective, error) {
	l, kind, anchor := settings.Loss, settings.Kind(), model.Anchor(settings)
	kl := l.KL.Weight > 0
	switch {
	case kind.Steps != nil:
		rows, of, err := m.judgedBy(settings)
		if err != nil {
			return nil, err
		}
		return trainer.PolicyGradient{Even: settings.Comparison().Edges || settings.Sampler.Window.One || settings.Sampler.Window.Own, Weigh: settings.Weigh(), Rows: rows, RowsOf: of, Loss: kind.Steps(l.Options), Reference: kl && l.KL.Reference != "old", Anchor: anchor,
			KLOver: l.KL.Denominator}, nil
	case kind.Noised != nil:
		ladder, err := settings.Noising()
		if err != nil {
			return nil, err
		}
		return trainer.ForwardProcess{Draw: m.noising(settings), Settle: m.settle, At: ladder, Paired: kind.Has(loss.SamplePairs), Times: l.Times, Together: kind.Together != nil && kind.Together(l.Options), Unit: unit, Old: kind.Has(loss.OldWeights), Reference: kind.Has(loss.Reference) || kind.Has(loss.ReferenceIfWeighted) && kl,
			Anchor: anchor, Average: kind.Has(loss.AverageIfWeighted) && l.KL.EMAWeight > 0, Loss: kind.Noised(l.Options, settings.Rollout.Group)}, nil
	case kind.Learns == loss.RewardSlope:
		return m.rewardGradient(settings, policy), nil
	}
	return nil, fmt.Errorf("objective %q cannot be trained with yet: %s can", l.Objective, strings.Join(trainable(), ", "))
}

// trainable are the names of the objectives on pictures.
func trainable() (names []string) {
	for _, o := range loss.Objectives() {
		if o.Pictures != nil {
			names = append(names, o.Name)
		}
	}
	return names
}

// settle is the noise of clips, of which the first frame may be given.
func (m *Model) settle(keys []trainer.Key, noise, clean [][]float64) ([][]float64, error) {
	given, err := m.Policy.sources(keys)
	if err != nil {
		return nil, err
	}
	out := make([][]float64, len(keys))
	for i, g := range given {
		out[i] = g.Settle(noise[i], clean[i])
	}
	return out, nil
}

// noising draws the time and the noise of noised samples: one time for each slice of the range, at
// random within it, or the next of the sampler's times in a drawn order. A ladder's time is a share of
// its training steps.
func (m *Model) noising(settings experiment.Settings) func(k trainer.Key, n int) (float64, []float64) {
	times, iteration := max(1, settings.Loss.Times), settings.First+settings.Iteration
	return func(k trainer.Key, n int) (float64, []float64) {
		order, key := m.Draws.Of("order of times", k), m.Draws.Of("times", k).Step(n)
		if k.Iteration != iteration { // a sample that is reused is noised anew
			order, key = order.With("again").Iteration(iteration), key.With("again").Iteration(iteration)
		}
		at := (float64(n%times) + key.Draw().Float64()) / float64(times)
		time, form := at, m.form(k)
		if schedule := form.settings.Schedule; schedule.Alpha == nil {
			sigmas := settings.Loss.Within(schedule.Sigmas[:schedule.Steps()])
			if settings.Loss.Draw == "permutation" {
				time = sigmas[permuted(order, n, len(sigmas))]
			} else {
				time = settings.Loss.Sigma(at, sigmas)
			}
		}
		return time, pipeline.Noise(key.With("noise of a noised sample"), form.At)
	}
}

// permuted is the n-th of some places in a drawn order of them; after the last one another order begins.
// Invariant (test): no place comes again before all have come.
func permuted(order rng.Key, n, places int) int {
	return order.Step(n / places).Draw().Perm(places)[n%places]
}
