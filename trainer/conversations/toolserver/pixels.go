package toolserver

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/trainer/experiment"
	"github.com/darkroom-rl/darkroom/vision"
)

// Card: how many pixels of tools' pictures are held. Those of a question are the list's own, and its group shares them.
// A tool's stay until the episode was learned from:
//
//	of a reply     at most maxReplyPixels; a longer one is refused
//	of an episode  at most MaxEpisodePixels at full size, and at most its share of maxBatchPixels; whatever comes
//	               then is made as small as the model looks at it, at once
//
// A later call can cut out of a picture at full size. One that was made small has the pixels that the model saw, and
// a cut of it no more. The treatment of a picture depends on its episode and on the experiment alone.
//
// Invariants (tests): small pictures stay as they are; whatever a server sends, an episode holds no more than its
// share and the pixels that the model saw; a transcript's boxes lie where they lay.
const (
	maxReplyPixels   = 1 << 27 // pixels, as of a request to score --serve
	MaxEpisodePixels = 1 << 25
	maxBatchPixels   = 1 << 30
)

// PixelsOf is how many pixels an experiment's episode holds at full size.
func PixelsOf(e *experiment.Experiment) int {
	return min(MaxEpisodePixels, maxBatchPixels/max(1, e.Rollout.PromptsPerIteration*e.Rollout.Group))
}

// A PixelBudget holds the pictures that tools made for an episode.
type PixelBudget struct {
	left int // pixels
	size func(width, height int) (w, h int, err error)
	held map[*vision.Image]bool
}

func NewPixelBudget(room int, size func(width, height int) (w, h int, err error)) *PixelBudget {
	return &PixelBudget{room, size, map[*vision.Image]bool{}}
}

// Hold is a picture as it is held.
func (s *PixelBudget) Hold(m *vision.Image) (*vision.Image, error) {
	if s == nil || s.held[m] {
		return m, nil
	}
	if n := m.Width * m.Height; n <= s.left {
		s.left -= n
		s.held[m] = true
		return m, nil
	}
	w, h, err := s.size(m.Width, m.Height)
	if err != nil || w*h >= m.Width*m.Height {
		return m, nil // the reader of it reports the error
	}
	small, err := m.Resize(w, h, vision.Bicubic)
	if err != nil {
		return nil, fmt.Errorf("a picture of %d x %d pixels: %w", m.Width, m.Height, err)
	}
	s.held[small] = true
	return small, nil
}
