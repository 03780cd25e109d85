package tools

// rotate turns a picture counter-clockwise about its centre, and keeps its size:
// {"picture": 1, "angle": 90}.
func rotate() Tool {
	return Tool{Name: "rotate", About: "Turns a picture counter-clockwise about its centre.", Parameters: object(shownPicture, `"angle": {"type": "number", "description": "degrees"}`), Plan: func(s *State, args any) (Plan, error) {
		a := argumentsOf(args)
		i, _ := a.picture(s)
		angle := a.real("angle")
		if a.err != nil {
			return Plan{}, a.err
		}
		return Plan{Ops: []Op{{Kind: "rotate", Picture: i, Angle: angle}}}, nil
	}}
}
