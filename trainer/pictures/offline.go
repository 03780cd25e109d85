package pictures

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/data/album"
	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/diffusion/pipeline"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision"
)

// Learning from pictures that exist: in place of a roll, an iteration's pages are encoded, and the album's value of
// each picture is its total. Rewards are asked all the same, so that the ledger shows their scores of these pictures:
// the files' own, of which nothing is decoded.

// readPrompts reads the training data.
func readPrompts(e *experiment.Experiment) ([]prompts.Prompt, error) {
	return e.Training(func(name string) (all []prompts.Prompt, err error) {
		pages, err := album.Open(name)
		if err != nil {
			return nil, err
		}
		for _, at := range e.EachStage() {
			if slices.Contains(at.Rollout.Prompts, name) {
				if err := fits(name, pages, at.Rollout); err != nil {
					return nil, err
				}
			}
		}
		for _, p := range pages {
			p.List = name
			all = append(all, p.Prompt)
		}
		return all, nil
	})
}

// fits reports pages that have another number of pictures than a group.
func fits(name string, pages []album.Page, r experiment.Rollout) error {
	for _, p := range pages {
		if n := len(p.Scores); n != r.Group {
			return fmt.Errorf("%s: %q has %d pictures, and rollout.group is %d\nhint: group = 2 for pairs, 1 for pictures; a file has one kind", name, p.Text, n, r.Group)
		}
	}
	return nil
}

// openAlbums reads the pages of the lists that are learned from, by the places of their prompts.
func (m *Model) openAlbums(e *experiment.Experiment) error {
	for _, l := range e.Lists() {
		if !l.Offline {
			continue
		}
		pages, err := album.Open(l.Name)
		if err != nil {
			return err
		}
		first := slices.IndexFunc(m.asked.Train, func(p prompts.Prompt) bool { return p.List == l.Name })
		if first < 0 || first+len(pages) > len(m.asked.Train) {
			return fmt.Errorf("%s has %d prompts with pictures, and the run's prompts hold others", l.Name, len(pages))
		}
		if m.album == nil {
			m.album = map[int]album.Page{}
		}
		for i, p := range pages {
			m.album[first+i] = p
		}
	}
	return nil
}

// offline reports whether the iteration learns from pictures that exist.
func (m *Model) offline() bool { return m.settings.Experiment != nil && m.settings.Rollout.Offline }

// portion is how many pictures of a size lie in memory in fp32 at once, in passes of the autoencoder.
func portion(at pipeline.Shape) int { return 8 * max(1, (1<<18)/max(1, at.Pixels())) }

// Roll makes samples, or encodes the album's pictures that keys name.
func (m *Model) Roll(w trainer.Weights, keys []trainer.Key) ([]trainer.Sample, error) {
	if !m.offline() {
		return m.Policy.Roll(w, keys)
	}
	if m.Ready != nil {
		if err := m.Ready(distinct(promptsOf(keys))); err != nil {
			return nil, err
		}
	}
	samples := make([]trainer.Sample, len(keys))
	forms, places := m.alike(keys)
	for _, f := range forms {
		for some := range slices.Chunk(places[f], portion(f.At)) {
			pictures, err := m.pictured(f.At, trainer.Pick(keys, some))
			if err != nil {
				return nil, err
			}
			raw := make([][]float32, len(some))
			for i, m := range pictures {
				raw[i] = vision.Floats(nil, m, vision.Signed, vision.ChannelsLast)
			}
			finals, err := m.Pipeline.EncodeAll(raw, f.At)
			if err != nil {
				return nil, err
			}
			for i, place := range some {
				samples[place] = trainer.Sample{Key: keys[place], Item: trainer.Item{Final: finals[i], Image: pictures[i], Size: [2]int{f.At.Width, f.At.Height}}}
			}
		}
	}
	return samples, nil
}

// pictured are the album's pictures that keys name.
func (m *Model) pictured(at pipeline.Shape, keys []trainer.Key) (all []*vision.Image, err error) {
	for _, k := range keys {
		page, ok := m.album[k.Prompt]
		if !ok {
			return nil, fmt.Errorf("prompt %d has no pictures to learn from", k.Prompt)
		}
		picture, err := page.Picture(k.Sample, at.Width, at.Height)
		if err != nil {
			return nil, err
		}
		all = append(all, picture)
	}
	return all, nil
}

// Shape puts the album's values of samples in place of their totals.
func (m *Model) Shape(samples []trainer.Sample, totals []float64) {
	if !m.offline() {
		return
	}
	for i, s := range samples {
		totals[i] = m.album[s.Key.Prompt].Scores[s.Key.Sample]
	}
}
