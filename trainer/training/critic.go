package training

import (
	"context"
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
)

// What tokens' rewards are compared with where it is not their group: a head of values (gae), or
// the likeliest answer to the same prompt (remax).

// hasCritic reports whether any stage learns with a head of values.
func hasCritic(e *experiment.Experiment) bool {
	for _, at := range everyStage(e) {
		if at.Episode != nil && at.Advantage.Estimator == "gae" {
			return true
		}
	}
	return false
}

// pace sets how a head of values learns in an iteration; its learning rate is multiplied with scale.
func (m *model) pace(turn experiment.Turn, scale float64) {
	if m.talk.Critic() == nil {
		return
	}
	v := turn.Loss.Value
	m.talk.Pace(v.LR*scale, v.GradClip)
	m.talk.Still = turn.Advantage.Estimator == "gae" && turn.Iteration < v.Warmup
}

// baselines fills in what the estimator takes from rewards to come. Samples of a prompt whose
// likeliest answer has no score have none either: they are missing.
func (t *Training) baselines(rows *advantage.Tokens, samples []trainer.Sample, totals []float64) error {
	switch t.turn.Advantage.Estimator {
	case "gae":
		values, err := t.model.talk.Values(samples)
		if err != nil {
			return err
		}
		for i, s := range samples {
			row := make([]float64, len(rows.Mask[i]))
			for k, step := range s.Decisions.Step {
				row[step-s.Item.Episode.Prompt] = values[i][k]
			}
			rows.Values = append(rows.Values, row)
		}
	case "remax":
		worth, err := t.greedy(samples)
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
func (t *Training) greedy(samples []trainer.Sample) (map[int]float64, error) {
	p := *t.model.talk
	p.Sampling.TopK, p.Sampling.TopP, p.Sampling.MinP, p.Progress, p.Noise = 1, 1, 0, nil, nil
	var keys []trainer.Key
	var list []prompts.Prompt
	for _, g := range groups(samples) {
		k := samples[g[0]].Key
		keys, list = append(keys, trainer.Key{Iteration: k.Iteration, Prompt: k.Prompt}), append(list, t.train[k.Prompt])
	}
	rolled, err := p.Roll(t.loop.Actor, keys)
	if err != nil {
		return nil, err
	}
	items, err := t.model.developed(rolled)
	if err != nil {
		return nil, err
	}
	s, err := t.score(context.Background(), t.turn.Experiment, list, items, groups(rolled))
	if err != nil {
		return nil, err
	}
	t.shape(rolled, s.total)
	t.likely = spreadOf(s.total)
	worth := map[int]float64{}
	for i, k := range keys {
		worth[k.Prompt] = s.total[i]
	}
	return worth, nil
}

// criticTensors are a head of values and its optimiser, for a checkpoint.
func (m *model) criticTensors() []safetensors.Tensor {
	if m.talk == nil || m.talk.Critic() == nil {
		return nil
	}
	params, mover, _ := m.talk.Critic().State()
	all := mover.Tensors("value.optimiser.")
	for i, p := range params {
		all = append(all, safetensors.FromF32(fmt.Sprintf("value.weights.%d", i), p.Shape, p.Value.F32()))
	}
	return all
}

// loadCritic goes back to a checkpoint's; read is told a name and how many numbers it has.
func (m *model) loadCritic(f *safetensors.File, read func(name string, n int) ([]float32, error)) error {
	if m.talk == nil || m.talk.Critic() == nil {
		return nil
	}
	params, mover, _ := m.talk.Critic().State()
	for i, p := range params {
		x, err := read(fmt.Sprintf("value.weights.%d", i), p.Value.Len())
		if err != nil {
			return err
		}
		p.Value.UploadF32(x)
		p.Updated()
	}
	return mover.Load(f, "value.optimiser.")
}
