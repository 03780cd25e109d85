package tools

import "github.com/darkroom-rl/darkroom/vision"

// frame shows one frame of the clip: {"frame": 1}.
var frame = Builtin{
	Name: "frame",
	Card: "Shows one frame of the clip.",
	Schema: func(Frame) string {
		return object("", `"frame": {"type": "integer", "description": "counted from 1"}`)
	},
	Examples: []string{`{"frame": 1}`},
	Ops:      map[string]drawing{"frame": func(m *vision.Image, _ Op) (*vision.Image, error) { return m.Clone(), nil }},
	Plan: func(_ Frame, s *State, a *arguments) (Plan, error) {
		n := len(s.Album.Clip)
		if n == 0 {
			return Plan{}, refuse(NoPicture, "", "there is no clip")
		}
		a.need("frame")
		i := a.whole("frame", 1, n, 1)
		if a.err != nil {
			return Plan{}, a.err
		}
		return Plan{Ops: []Op{{Kind: "frame", Picture: i - 1}}}, nil
	},
}
