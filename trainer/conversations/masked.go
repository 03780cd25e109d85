package conversations

import (
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/vision"
)

// Card: what an answer is worth behind masked pictures (PAPO, verl/trainer/papo_utils.py of its code; the loss is
// package loss's Perception). A picture is cut into squares of Patch pixels from its upper left corner; each is black
// with probability Share. What tools made is made again from the masked pictures; upstream has no tools. Clips, and
// pictures that a program drew, stay as they are. A prompt's pictures are masked in the same places for its whole
// group, in each iteration anew; upstream draws them for each row of a batch before it is repeated, which is the same.
// It is computed once, before the first update; an episode of rollout.buffer keeps it.
//
// Invariants (tests): a patch is black as a whole or untouched; what is answered on unmasked pictures has the bits of
// the roll; the key decides which patches.

// judgeMasked masks where the turn's loss asks for it.
func (m *Model) judgeMasked(samples []trainer.Sample) error {
	o := m.turn.Loss.Perception
	if !o.On() || m.turn.Kind().Written() {
		return nil
	}
	return m.Masked(samples, o)
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
		h, err := p.hear(trainer.Point{Key: s.Key, Episode: &hidden}, false)
		if err != nil {
			return fmt.Errorf("sample %d of prompt %d, behind masked pictures: %w", s.Key.Sample, s.Key.Prompt, err)
		}
		d.Masked = h.outputs()
		h.tape.Reset()
	}
	return nil
}

// masked are a prompt's pictures with black patches.
func (p *Policy) masked(k trainer.Key, o loss.Perception) ([]*vision.Image, error) {
	q, err := p.Ask(k.Prompt)
	if err != nil {
		return nil, err
	}
	key := p.Draws.Of("masked pictures", trainer.Key{Iteration: k.Iteration, Prompt: k.Prompt})
	all := make([]*vision.Image, len(q.Pictures))
	for i, picture := range q.Pictures {
		all[i] = Blackened(picture, o.Patch, o.Share, key.Step(i))
	}
	return all, nil
}

// Blackened is a picture some of whose patches are black, each with the same probability.
func Blackened(m *vision.Image, patch int, share float64, key rng.Key) *vision.Image {
	out := vision.New(m.Width, m.Height)
	copy(out.Pix, m.Pix)
	depth, draw := len(m.Pix)/(m.Width*m.Height), key.Draw()
	for y := 0; y < m.Height; y += patch {
		for x := 0; x < m.Width; x += patch {
			if draw.Float64() >= share {
				continue
			}
			for row := y; row < min(y+patch, m.Height); row++ {
				clear(out.Pix[(row*m.Width+x)*depth : (row*m.Width+min(x+patch, m.Width))*depth])
			}
		}
	}
	return out
}
