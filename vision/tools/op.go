package tools

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/vision"
)

// An Op is something done to one picture of an album. Planning it needs sizes alone; Make
// does it.
type Op struct {
	Kind    string // crop, rotate, flip, box, line, point, grid, frame
	Picture int    // of the album, from 0; for frame, of the clip
	Shown   bool   // the picture is taken as it was shown, not at full size

	Box    Box     // crop, box, line (from corner to corner), point (twice the same): before rounding
	Rect   Rect    // crop: the corners in whole pixels
	Angle  float64 // rotate: degrees counter-clockwise
	Axis   string  // flip: horizontal or vertical
	Cells  int     // grid: how many of them on the longer side
	Colour int     // box, line, point, grid: of vision.Palette
	Label  string  // box, line, point

	ToWidth, ToHeight int // the result is resized to this size; 0: not
}

// Make does it.
func (o Op) Make(a *Album) (*vision.Image, error) {
	source, err := o.source(a)
	if err != nil {
		return nil, err
	}
	out, err := o.apply(source)
	if err != nil {
		return nil, fmt.Errorf("%s of picture %d: %w", o.Kind, o.Picture+1, err)
	}
	if o.ToWidth > 0 {
		return out.Resize(o.ToWidth, o.ToHeight, vision.Bicubic)
	}
	return out, nil
}

func (o Op) source(a *Album) (*vision.Image, error) {
	if o.Kind == "frame" {
		if o.Picture < 0 || o.Picture >= len(a.Clip) {
			return nil, refuse(NoPicture, "IndexError", "there is no frame %d: they are numbered 1 to %d", o.Picture+1, len(a.Clip))
		}
		return a.Clip[o.Picture], nil
	}
	p, err := a.picture(o.Picture)
	if err != nil {
		return nil, err
	}
	if p.Image == nil {
		return nil, refuse(Failed, "Exception", "picture %d is not at hand", o.Picture+1)
	}
	if o.Shown && (p.ShownWidth != p.Width || p.ShownHeight != p.Height) {
		return p.Image.Resize(p.ShownWidth, p.ShownHeight, vision.Bicubic)
	}
	return p.Image, nil
}

func (o Op) apply(m *vision.Image) (*vision.Image, error) {
	switch o.Kind {
	case "crop":
		return m.Crop(o.Rect[0], o.Rect[1], o.Rect.Width(), o.Rect.Height())
	case "rotate":
		return m.Rotate(o.Angle), nil
	case "flip":
		return flipped(m, o.Axis), nil
	case "box", "line", "point":
		return drawn(m, o), nil
	case "grid":
		return gridded(m, o), nil
	case "frame":
		return m.Clone(), nil
	}
	return nil, fmt.Errorf("%q is nothing that can be done to a picture", o.Kind)
}
