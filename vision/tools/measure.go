package tools

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// measure says how far two points are from each other: {"picture": 1, "bbox_2d": [x0, y0, x1,
// y1]}. It makes no picture.
var measure = Builtin{
	Name:     "measure",
	Card:     "Says how far two points of a picture are from each other.",
	Schema:   func(f Frame) string { return object(shownPicture, boxIn(f)) },
	Examples: []string{`{"bbox_2d": [1, 2, 3, 4]}`},
	Plan: func(f Frame, s *State, a *arguments) (Plan, error) {
		_, p := a.picture(s)
		b := a.box("bbox_2d")
		if a.err != nil {
			return Plan{}, a.err
		}
		b, err := f.ToFull(b, p)
		if err != nil {
			return Plan{}, err
		}
		w, h := math.Abs(b.width()), math.Abs(b.height())
		degrees := portable.Atan2(b[1]-b[3], b[2]-b[0]) * 180 / math.Pi
		return Plan{Text: fmt.Sprintf("%.1f pixels (%.1f across, %.1f down), %.1f degrees; the picture has %d x %d", portable.Hypot(w, h), w, h, degrees, p.Width, p.Height)}, nil
	},
}
