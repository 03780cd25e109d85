package rollout

import (
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/conversations/augment"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/tools"
)

// Card: episodes with distorted pictures (package augment). An episode is played with the prompt's pictures
// distorted, and its tools work on these. It is learned from with the clean ones: tools' pictures are made again from
// them, and sizes, and so places, are the same. Pictures that a program drew stay as they are. The transcript's
// hashes are of the distorted pictures.
//
// Invariants (tests): episodes of a group that see clean pictures are those of a run without noise; on clean
// pictures, Eval's log-probabilities of every token are those of the roll's Noise.

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
		all[i] = augment.Distort(m, step, key.Step(i))
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

// scoreClean fills in the log-probabilities before clean pictures of tokens that were drawn before distorted ones.
func (p *Policy) scoreClean(samples []trainer.Sample) error {
	for i, s := range samples {
		n := EpisodeOf(s).Noise
		if n == nil {
			continue
		}
		var err error
		if n.LogProb, err = p.LogProbs(s); err != nil {
			return fmt.Errorf("sample %d of prompt %d, on clean pictures: %w", s.Key.Sample, s.Key.Prompt, err)
		}
		if p.Clean {
			samples[i].Decisions.LogProb = n.LogProb
		}
	}
	return nil
}

// Card: T-GRPO's control (Video-R1, arXiv 2503.21776; open_r1/trainer/grpo_trainer.py). The last of a group see the
// chosen frames of their clips in a drawn order, one order an iteration and prompt, as upstream's one call of
// generate has. Its worth to the others is in trainer/run/control.go.
//
// Invariants (tests): those of a group that see the clip as it is are those of a run without a control; a control has
// the same frames, in another order; Eval's log-probabilities of its tokens are Roll's.

// IsControl is whether a key's clips are shuffled, where it has any.
func (p *Policy) IsControl(k trainer.Key) bool { return p.Control != nil && p.Control(k) }

// FrameOrder says in which order a key sees the frames of its clips; nil: as they come.
func (p *Policy) FrameOrder(k trainer.Key) func(clip, frames int) []int {
	if !p.IsControl(k) {
		return nil
	}
	key := p.Draws.Of("shuffled frames", trainer.Key{Iteration: k.Iteration, Prompt: k.Prompt})
	return func(clip, frames int) []int { return key.Step(clip).Draw().Perm(frames) }
}

// Masked fills in the log-probabilities of samples' tokens behind masked pictures, by the current weights; NaN where a
// prompt has no picture of its own to mask, as with clips alone.
func (p *Policy) Masked(samples []trainer.Sample, o loss.Perception) error {
	p.forget()
	for i, s := range samples {
		d := &samples[i].Decisions
		e := EpisodeOf(s)
		given, err := p.masked(s.Key, o)
		if err != nil {
			return err
		}
		if len(given) == 0 || len(e.Album.Pictures) == 0 {
			d.Masked = slices.Repeat([]float64{math.NaN()}, len(d.LogProb))
			continue
		}
		hidden := *e
		if hidden.Album, err = cleaned(e.Album, given); err != nil {
			return err
		}
		masked := s
		masked.Item.Episode = &hidden
		if d.Masked, err = p.LogProbs(masked); err != nil {
			return fmt.Errorf("sample %d of prompt %d, behind masked pictures: %w", s.Key.Sample, s.Key.Prompt, err)
		}
	}
	return nil
}

// masked are a prompt's pictures with black patches.
func (p *Policy) masked(k trainer.Key, o loss.Perception) ([]*vision.Image, error) {
	q, err := p.Prompts(k.Prompt)
	if err != nil {
		return nil, err
	}
	key := p.Draws.Of("masked pictures", trainer.Key{Iteration: k.Iteration, Prompt: k.Prompt})
	all := make([]*vision.Image, len(q.Pictures))
	for i, picture := range q.Pictures {
		all[i] = augment.MaskPatches(picture, o.Patch, o.Share, key.Step(i))
	}
	return all, nil
}
