package conversations

import (
	"github.com/darkroom-rl/darkroom/trainer"
	"github.com/darkroom-rl/darkroom/trainer/experiment"
)

// Card: T-GRPO's control (Video-R1, arXiv 2503.21776; open_r1/trainer/grpo_trainer.py). The last of a group see the
// chosen frames of their clips in a drawn order, one order an iteration and prompt, as upstream's one call of
// generate has. What that is worth to the others stands in trainer/run/control.go.
//
// Invariants (tests): those of a group that see the clip as it is are those of a run without a control; a control has
// the same frames, in another order; Eval says of its tokens what Roll did.

// control is whether a key's clips are shuffled, where it has any.
func (p *Policy) control(k trainer.Key) bool { return p.Control != nil && p.Control(k) }

// frames says in which order a key sees the frames of its clips; nil: as they come.
func (p *Policy) frames(k trainer.Key) func(clip, frames int) []int {
	if !p.control(k) {
		return nil
	}
	key := p.Draws.Of("shuffled frames", trainer.Key{Iteration: k.Iteration, Prompt: k.Prompt})
	return func(clip, frames int) []int { return key.Step(clip).Draw().Perm(frames) }
}

// shuffle says which keys of an iteration are controls.
func (m *Model) shuffle(turn experiment.Turn) {
	s := turn.Episode.Shuffled
	if s == nil {
		return
	}
	first := turn.Rollout.Group - s.Of(turn.Rollout.Group)
	m.Control = func(k trainer.Key) bool { return k.Sample >= first }
}
