package tools

import (
	"fmt"
	"strings"

	"github.com/darkroom-rl/darkroom/vision"
)

// A Reader reads the words in a picture, in reading order.
type Reader interface {
	Read(m *vision.Image) ([]string, error)
}

// readText says which words stand in a picture or a box of it: {"picture": 1, "bbox_2d": [...]}. It makes no picture.
// No run has a Reader, so that no model is offered it.
var readText = Builtin{
	Name:     "read_text",
	Examples: []string{`{"bbox_2d": [0, 0, 20, 20]}`},
	Plan: func(f Frame, s *State, a *arguments) (Plan, error) {
		i, p := a.picture(s)
		b := Box{0, 0, float64(p.Width), float64(p.Height)}
		if _, ok := a.Values["bbox_2d"]; ok {
			b = a.box("bbox_2d")
			if a.err == nil {
				var err error
				if b, err = inside(f, b, p); err != nil {
					return Plan{}, err
				}
			}
		}
		switch {
		case a.err != nil:
			return Plan{}, a.err
		case s.Reader == nil:
			return Plan{}, refuse(Failed, "", "nothing here can read text")
		}
		op, err := crop(i, b)
		if err != nil {
			return Plan{}, err
		}
		if min(op.Rect.Width(), op.Rect.Height()) < 1 {
			return Plan{}, refuse(InvalidBox, "", "the box holds no whole pixel")
		}
		m, err := op.source(s.Album)
		if err == nil {
			m, err = m.Crop(op.Rect[0], op.Rect[1], op.Rect.Width(), op.Rect.Height())
		}
		if err != nil {
			return Plan{}, err
		}
		words, err := s.Reader.Read(m)
		if err != nil {
			return Plan{}, refuse(Failed, "", "reading failed: %v", err)
		}
		return Plan{Text: fmt.Sprintf("%d words: %s", len(words), strings.Join(words, " "))}, nil
	},
}
