package tools

import (
	"image"
	"image/color"
	"math"

	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/vision"
)

// Tools that draw on a copy of a picture: {"picture": 1, "bbox_2d": [...], "label": "a"} for
// draw_box, the same with two ends for draw_line, {"picture": 1, "point_2d": [x, y]} for
// draw_point. "colour" is 1 to 8, of vision.Palette.

var (
	drawBox = marking("draw_box", "box", boxIn, `{"bbox_2d": [1, 2, 50, 40], "label": "cup", "colour": 2}`)

	drawLine = marking("draw_line", "line", boxIn, `{"bbox_2d": [-5, 2, 50, 60]}`)

	drawPoint = marking("draw_point", "point", func(f Frame) string {
		return `"point_2d": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2, "description": "[x, y], ` + f.words() + `"}`
	}, `{"point_2d": [4, 5], "label": "é"}`)
)

func marking(name, kind string, place func(Frame) string, example string) Builtin {
	return Builtin{
		Name:     name,
		Card:     "Draws a " + kind + " on a copy of a picture.",
		Schema:   func(f Frame) string { return object(shownPicture+`, "label": {"type": "string"}`, place(f)) },
		Examples: []string{example},
		Ops:      map[string]drawing{kind: func(m *vision.Image, o Op) (*vision.Image, error) { return drawn(m, o), nil }},
		Plan: func(f Frame, s *State, a *arguments) (Plan, error) {
			i, p := a.picture(s)
			var b Box
			if kind == "point" {
				b = a.point("point_2d")
			} else {
				b = a.box("bbox_2d")
			}
			op := Op{Kind: kind, Picture: i, Colour: a.whole("colour", 1, 8, 4) - 1, Label: a.text("label")}
			if len(op.Label) > 64 {
				a.fail(refuse(BadValue, "", "a label has at most 64 bytes"))
			}
			if a.err != nil {
				return Plan{}, a.err
			}
			var err error
			op.Box, err = f.ToFull(b, p)
			return Plan{Ops: []Op{op}}, err
		},
	}
}

// point is two numbers, as the box of one point.
func (a *arguments) point(key string) Box {
	list, ok := a.need(key).([]any)
	if !ok || len(list) != 2 {
		a.fail(refuse(BoxArity, "", "the argument %q must be a list of two numbers", key))
		return Box{}
	}
	x, y := a.finite(key, list[0]), a.finite(key, list[1])
	return Box{x, y, x, y}
}

func drawn(m *vision.Image, o Op) *vision.Image {
	m = m.Clone()
	c := vision.Palette(o.Colour)
	half := max(1, min(m.Width, m.Height)/160)
	b := o.Box
	switch o.Kind {
	case "point":
		disc(m, b[0], b[1], 3*float64(half), c)
		if o.Label != "" {
			m.Draw([]vision.Mark{{X0: b[0] - 1, Y0: b[1] - 1, X1: b[0] + 1, Y1: b[1] + 1, Label: o.Label, Colour: c}})
		}
	case "line":
		line(m, b, float64(half), c)
	default:
		m.Draw([]vision.Mark{{X0: b[0], Y0: b[1], X1: b[2], Y1: b[3], Label: o.Label, Colour: c}})
	}
	return m
}

// disc fills a circle, as far as it lies in the picture.
func disc(m *vision.Image, x, y, radius float64, c color.RGBA) {
	for py := max(0, int(y-radius)); py < min(m.Height, int(y+radius)+1); py++ {
		for px := max(0, int(x-radius)); px < min(m.Width, int(x+radius)+1); px++ {
			if portable.Hypot(float64(px)+0.5-x, float64(py)+0.5-y) <= radius {
				m.Fill(image.Rect(px, py, px+1, py+1), c)
			}
		}
	}
}

// line is a stroke of squares, one a step along the longer side, no farther out than the
// picture's own size.
func line(m *vision.Image, b Box, half float64, c color.RGBA) {
	for i, size := range [4]float64{float64(m.Width), float64(m.Height), float64(m.Width), float64(m.Height)} {
		b[i] = math.Max(-size, math.Min(2*size, b[i]))
	}
	steps := int(math.Max(math.Abs(b.width()), math.Abs(b.height()))) + 1
	for i := range steps + 1 {
		t := float64(i) / float64(steps)
		x, y := b[0]+float64(t*b.width()), b[1]+float64(t*b.height())
		m.Fill(image.Rect(int(math.Floor(x-half)), int(math.Floor(y-half)), int(math.Ceil(x+half)), int(math.Ceil(y+half))), c)
	}
}
