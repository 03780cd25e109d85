package tools

import (
	"fmt"
	"image"

	"github.com/darkroom-rl/darkroom/vision"
)

// grid lays numbered lines over a picture, so that places can be spoken of: {"picture": 1,
// "cells": 8} has that many cells on the longer side.
var grid = Builtin{
	Name: "grid",
	Card: "Lays numbered lines over a picture.",
	Schema: func(Frame) string {
		return object(shownPicture, `"cells": {"type": "integer", "description": "2 to 32, on the longer side"}`)
	},
	Examples: []string{`{"cells": 3}`},
	Ops:      map[string]drawing{"grid": func(m *vision.Image, o Op) (*vision.Image, error) { return gridded(m, o), nil }},
	Plan: func(_ Frame, s *State, a *arguments) (Plan, error) {
		i, _ := a.picture(s)
		op := Op{Kind: "grid", Picture: i, Cells: a.whole("cells", 2, 32, 8), Colour: a.whole("colour", 1, 8, 4) - 1}
		if a.err != nil {
			return Plan{}, a.err
		}
		return Plan{Ops: []Op{op}}, nil
	},
}

// gridded draws the lines and writes at each where it is, in pixels of the picture.
func gridded(m *vision.Image, o Op) *vision.Image {
	m = m.Clone()
	c := vision.Palette(o.Colour)
	step := max(1, (max(m.Width, m.Height)+o.Cells-1)/max(1, o.Cells))
	for x := step; x < m.Width; x += step {
		m.Fill(image.Rect(x, 0, x+1, m.Height), c)
		m.Text(x+2, 0, fmt.Sprint(x), c, 1)
	}
	for y := step; y < m.Height; y += step {
		m.Fill(image.Rect(0, y, m.Width, y+1), c)
		m.Text(0, y+1, fmt.Sprint(y), c, 1)
	}
	return m
}
