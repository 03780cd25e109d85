package training

import (
	"errors"
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

// openPrompts reads what is trained on.
func (t *Training) openPrompts() (err error) {
	if !t.Rollout.Offline {
		t.train, err = prompts.Open(t.Rollout.Prompts)
		return err
	}
	if t.album, err = album.Open(t.Rollout.Prompts); err != nil {
		return err
	}
	for _, p := range t.album {
		t.train = append(t.train, p.Prompt)
	}
	for _, s := range t.Stages {
		if err := t.fits(s.Rollout); err != nil {
			return err
		}
	}
	return t.fits(t.Rollout)
}

// ErrFew says that an iteration would have a prompt twice.
var ErrFew = errors.New("too few prompts")

// enough refuses lists that are shorter than an iteration: of a prompt that is there twice every sample
// would be, too.
func enough(e *experiment.Experiment, n int) error {
	for _, at := range everyStage(e) {
		if per := at.Rollout.PromptsPerIteration; per > n {
			return fmt.Errorf("%w: %s has %d, and rollout.prompts_per_iteration is %d\nhint: write at most %d; a larger rollout.group makes more of each prompt", ErrFew, e.Rollout.Prompts, n, per, n)
		}
	}
	return nil
}

// fits reports pages that have another number of pictures than a group.
func (t *Training) fits(r experiment.Rollout) error {
	for _, p := range t.album {
		if n := len(p.Scores); n != r.Group {
			return fmt.Errorf("%s: %q has %d pictures, and rollout.group is %d\nhint: group = 2 for pairs, 1 for pictures; a file has one kind", r.Prompts, p.Text, n, r.Group)
		}
	}
	return nil
}

// A shelf is a policy whose samples were there before.
type shelf struct {
	trainer.Policy
	t *Training
}

// Roll encodes the pictures that keys name.
func (s shelf) Roll(_ trainer.Weights, keys []trainer.Key) ([]trainer.Sample, error) {
	m := s.t.model
	raw, samples := make([][]float32, len(keys)), make([]trainer.Sample, len(keys))
	for i, k := range keys {
		picture, err := s.t.album[k.Prompt].Picture(k.Sample, m.at.Width, m.at.Height)
		if err != nil {
			return nil, err
		}
		raw[i] = vision.Floats(nil, picture, vision.Signed, vision.ChannelsLast)
	}
	finals, err := m.pipeline.EncodeAll(raw, m.at)
	if err != nil {
		return nil, err
	}
	for i, k := range keys {
		samples[i] = trainer.Sample{Key: k, Item: trainer.Item{Final: finals[i]}}
	}
	return samples, nil
}

// worth is what the album says of samples.
func (t *Training) worth(samples []trainer.Sample) []float64 {
	totals := make([]float64, len(samples))
	for i, s := range samples {
		totals[i] = t.album[s.Key.Prompt].Scores[s.Key.Sample]
	}
	return totals
}
