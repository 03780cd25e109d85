package conversations

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// Card: episodes with distorted pictures (distort.go). An episode is played with the prompt's
// pictures distorted, and its tools work on these. It is learned from with the clean ones: what
// tools made is made again from them, and sizes, and so places, are the same. Pictures that a
// program drew stay as they are. The transcript's hashes are of what was seen.
//
// Invariants (tests): episodes of a group that see clean pictures are those of a run without
// noise; on clean pictures, Eval says of every token what the roll's Noise says.

// noise is the step of a key's; below 0: none.
func (p *Policy) noise(k trainer.Key) int {
	if p.Noise == nil {
		return -1
	}
	return max(-1, p.Noise(k))
}

// shown are a prompt's pictures as they are shown.
func (p *Policy) shown(k trainer.Key, step int, pictures []*vision.Image) []*vision.Image {
	if step < 0 {
		return pictures
	}
	key := p.Draws.Of("distorted pictures", trainer.Key{Iteration: k.Iteration, Prompt: k.Prompt})
	all := make([]*vision.Image, len(pictures))
	for i, m := range pictures {
		all[i] = Distorted(m, step, key.Step(i))
	}
	return all
}

// cleaned is an album as it would be of clean pictures.
func cleaned(a *tools.Album, given []*vision.Image) (*tools.Album, error) {
	out := &tools.Album{Clip: a.Clip}
	for i, p := range a.Pictures {
		switch {
		case i < len(given):
			p.Image = given[i]
		case p.From.Kind != "program":
			m, err := p.From.Make(out)
			if err != nil {
				return nil, fmt.Errorf("picture %d of an episode, from clean ones: %w", i+1, err)
			}
			p.Image = m
		}
		out.Pictures = append(out.Pictures, p)
	}
	return out, nil
}

// judgeClean fills in what tokens that were drawn before distorted pictures look like before clean
// ones.
func (p *Policy) judgeClean(samples []trainer.Sample) error {
	for i, s := range samples {
		n := EpisodeOf(s).Noise
		if n == nil {
			continue
		}
		h, err := p.hear(trainer.Point{Key: s.Key, Episode: s.Item.Episode}, false)
		if err != nil {
			return fmt.Errorf("sample %d of prompt %d, on clean pictures: %w", s.Key.Sample, s.Key.Prompt, err)
		}
		n.LogProb = h.outputs()
		h.tape.Reset()
		if p.Clean {
			samples[i].Decisions.LogProb = n.LogProb
		}
	}
	return nil
}

// distort says which keys of an iteration see distorted pictures.
func (m *Model) distort(turn experiment.Turn) {
	n := turn.Episode.Noisy
	if n == nil {
		return
	}
	step, first := NoiseStep(*n, turn.Iteration+1, turn.Run.Iterations), turn.Rollout.Group-n.Of(turn.Rollout.Group)
	m.Clean = n.Old == "clean"
	m.Noise = func(k trainer.Key) int {
		if k.Sample < first {
			return -1
		}
		return step
	}
}
