package tools

import "github.com/darkroom-rl/darkroom/vision"

// rotate turns a picture counter-clockwise about its centre, and keeps its size:
// {"picture": 1, "angle": 90}.
var rotate = Builtin{
	Name: "rotate",
	Card: "Turns a picture counter-clockwise about its centre.",
	Schema: func(Frame) string {
		return object(shownPicture, `"angle": {"type": "number", "description": "degrees"}`)
	},
	Examples: []string{`{"picture": 2, "angle": 45}`},
	Ops:      map[string]drawing{"rotate": func(m *vision.Image, o Op) (*vision.Image, error) { return m.Rotate(o.Angle), nil }},
	Plan: func(_ Frame, s *State, a *arguments) (Plan, error) {
		i, _ := a.picture(s)
		angle := a.real("angle")
		if a.err != nil {
			return Plan{}, a.err
		}
		return Plan{Ops: []Op{{Kind: "rotate", Picture: i, Angle: angle}}}, nil
	},
}
