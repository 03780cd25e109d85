package pictures

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/album"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/trainer/prompts"
	"github.com/darkroom-rl/darkroom/vision"
)

// Learning from pictures that exist: in place of a roll, an iteration's pages are encoded, and what
// the album says of each picture is its total. Rewards are asked all the same, so that the ledger
// shows what they think of these pictures.

// readPrompts reads what is trained on.
func readPrompts(e *experiment.Experiment) ([]prompts.Prompt, error) {
	if !e.Rollout.Offline {
		return e.Open(e.Rollout.Prompts)
	}
	pages, err := album.Open(e.Rollout.Prompts)
	if err != nil {
		return nil, err
	}
	for _, s := range e.Stages {
		if err := fits(pages, s.Rollout); err != nil {
			return nil, err
		}
	}
	var all []prompts.Prompt
	for _, p := range pages {
		all = append(all, p.Prompt)
	}
	return all, fits(pages, e.Rollout)
}

// fits reports pages that have another number of pictures than a group.
func fits(pages []album.Page, r experiment.Rollout) error {
	for _, p := range pages {
		if n := len(p.Scores); n != r.Group {
			return fmt.Errorf("%s: %q has %d pictures, and rollout.group is %d\nhint: group = 2 for pairs, 1 for pictures; a file has one kind", r.Prompts, p.Text, n, r.Group)
		}
	}
	return nil
}

// Roll makes samples, or encodes the album's pictures that keys name.
func (m *Model) Roll(w trainer.Weights, keys []trainer.Key) ([]trainer.Sample, error) {
	if m.album == nil {
		return m.Policy.Roll(w, keys)
	}
	raw, samples := make([][]float32, len(keys)), make([]trainer.Sample, len(keys))
	for i, k := range keys {
		picture, err := m.album[k.Prompt].Picture(k.Sample, m.form(k).At.Width, m.form(k).At.Height)
		if err != nil {
			return nil, err
		}
		raw[i] = vision.Floats(nil, picture, vision.Signed, vision.ChannelsLast)
	}
	forms, places := m.alike(keys)
	for _, f := range forms {
		finals, err := m.Pipeline.EncodeAll(trainer.Pick(raw, places[f]), f.At)
		if err != nil {
			return nil, err
		}
		for i, place := range places[f] {
			samples[place] = trainer.Sample{Key: keys[place], Item: trainer.Item{Final: finals[i], Size: [2]int{f.At.Width, f.At.Height}}}
		}
	}
	return samples, nil
}

// Shape puts what the album says of samples in place of their totals.
func (m *Model) Shape(samples []trainer.Sample, totals []float64) {
	if m.album == nil {
		return
	}
	for i, s := range samples {
		totals[i] = m.album[s.Key.Prompt].Scores[s.Key.Sample]
	}
}
