package tools

// frame shows one frame of the clip: {"frame": 1}.
func frame() Tool {
	return Tool{Name: "frame", About: "Shows one frame of the clip.", Parameters: object("", `"frame": {"type": "integer", "description": "counted from 1"}`), Plan: func(s *State, args any) (Plan, error) {
		a := argumentsOf(args)
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
	}}
}
