package tools

import "github.com/darkroom-rl/darkroom/vision"

// flip mirrors a picture: {"picture": 1, "axis": "horizontal"} exchanges left and right,
// "vertical" top and bottom.
var flip = Builtin{
	Name: "flip",
	Card: "Mirrors a picture.",
	Schema: func(Frame) string {
		return object(shownPicture, `"axis": {"type": "string", "enum": ["horizontal", "vertical"]}`)
	},
	Examples: []string{`{"axis": "vertical"}`},
	Ops:      map[string]drawing{"flip": func(m *vision.Image, o Op) (*vision.Image, error) { return flipped(m, o.Axis), nil }},
	Plan: func(_ Frame, s *State, a *arguments) (Plan, error) {
		i, _ := a.picture(s)
		a.need("axis")
		axis := a.text("axis")
		if a.err == nil && axis != "horizontal" && axis != "vertical" {
			a.fail(refuse(BadValue, "", `the argument "axis" must be "horizontal" or "vertical"`))
		}
		if a.err != nil {
			return Plan{}, a.err
		}
		return Plan{Ops: []Op{{Kind: "flip", Picture: i, Axis: axis}}}, nil
	},
}

func flipped(m *vision.Image, axis string) *vision.Image {
	out := vision.New(m.Width, m.Height)
	for y := range m.Height {
		if axis == "vertical" {
			copy(out.Row(m.Height-1-y), m.Row(y))
			continue
		}
		from, to := m.Row(y), out.Row(y)
		for x := range m.Width {
			copy(to[3*(m.Width-1-x):], from[3*x:3*x+3])
		}
	}
	return out
}
