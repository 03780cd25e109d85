package tools

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/vision"
)

// smallest is how many pixels a side of a crop must have: one merged cell of a vision tower.
const smallest = 28

// zoom cuts a box out of any earlier picture, at full size: {"picture": 1, "bbox_2d": [...]}.
var zoom = Builtin{
	Name:     "zoom",
	Card:     "Cuts a box out of a picture and shows it larger.",
	Schema:   func(f Frame) string { return object(shownPicture, boxIn(f)) },
	Examples: []string{`{"picture": 1, "bbox_2d": [10, 10, 60, 44]}`},
	Ops: map[string]drawing{"crop": func(m *vision.Image, o Op) (*vision.Image, error) {
		return m.Crop(o.Rect[0], o.Rect[1], o.Rect.Width(), o.Rect.Height())
	}},
	Plan: func(f Frame, s *State, a *arguments) (Plan, error) {
		i, p := a.picture(s)
		b := a.box("bbox_2d")
		if a.err != nil {
			return Plan{}, a.err
		}
		b, err := inside(f, b, p)
		if err != nil {
			return Plan{}, err
		}
		op, err := crop(i, b)
		if err == nil && min(op.Rect.Width(), op.Rect.Height()) < smallest {
			err = refuse(InvalidBox, "", "a crop of %d x %d pixels is too small: %d a side is the least", op.Rect.Width(), op.Rect.Height(), smallest)
		}
		if err != nil {
			return Plan{}, err
		}
		return Plan{Ops: []Op{op}, Text: fmt.Sprintf(" (%d x %d pixels of picture %d)", op.Rect.Width(), op.Rect.Height(), i+1)}, nil
	},
}

// inside is a box in pixels of the picture at full size, cut to it; an empty box or one thinner than 1 : 100 is
// refused.
func inside(f Frame, b Box, p Picture) (Box, error) {
	b, err := f.ToFull(b, p)
	if err != nil {
		return b, err
	}
	b = Box{math.Max(0, b[0]), math.Max(0, b[1]), math.Min(float64(p.Width), b[2]), math.Min(float64(p.Height), b[3])}
	if !b.proper() {
		return b, refuse(InvalidBox, "", "the box has no area inside the picture, or is thinner than 1 : 100")
	}
	return b, nil
}
