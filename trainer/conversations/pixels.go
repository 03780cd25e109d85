package conversations

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision"
)

// Card: how many pixels of tools' pictures are held. Those of a question are the list's own, and its group shares them.
// A tool's stay until the episode was learned from:
//
//	of a reply     at most mostOfReply; more is no answer
//	of an episode  at most mostOfEpisode at full size, and at most its share of mostOfBatch; whatever comes then is made
//	               as small as the model looks at it, at once
//
// A picture at full size is what a later call can cut out of. One that was made small has the pixels that the model
// saw, and a cut of it no more. What becomes of a picture depends on its episode and on the experiment alone.
//
// Invariants (tests): small pictures stay as they are; whatever a server sends, an episode holds no more than its share
// and what the model saw; a transcript's boxes lie where they lay.
const (
	mostOfReply   = 1 << 27 // pixels, as of a request to score --serve
	mostOfEpisode = 1 << 25
	mostOfBatch   = 1 << 30
)

// shareOf is how many pixels an experiment's episode holds at full size.
func shareOf(e *experiment.Experiment) int {
	return min(mostOfEpisode, mostOfBatch/max(1, e.Rollout.PromptsPerIteration*e.Rollout.Group))
}

// A shelf holds the pictures that tools made for an episode.
type shelf struct {
	room int // pixels
	size func(width, height int) (w, h int, err error)
	held map[*vision.Image]bool
}

func newShelf(room int, size func(width, height int) (w, h int, err error)) *shelf {
	return &shelf{room, size, map[*vision.Image]bool{}}
}

// hold is a picture as it is held.
func (s *shelf) hold(m *vision.Image) (*vision.Image, error) {
	if s == nil || s.held[m] {
		return m, nil
	}
	if n := m.Width * m.Height; n <= s.room {
		s.room -= n
		s.held[m] = true
		return m, nil
	}
	w, h, err := s.size(m.Width, m.Height)
	if err != nil || w*h >= m.Width*m.Height {
		return m, nil // whoever looks at it says what is wrong with it
	}
	small, err := m.Resize(w, h, vision.Bicubic)
	if err != nil {
		return nil, fmt.Errorf("a picture of %d x %d pixels: %w", m.Width, m.Height, err)
	}
	s.held[small] = true
	return small, nil
}
