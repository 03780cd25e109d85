package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/darkroom-rl/darkroom/vision"
)

// A Picture is one of an episode's pictures, and where it came from.
type Picture struct {
	Image         *vision.Image // at full size; nil where only sizes are known
	Width, Height int           // of Image
	ShownWidth    int           // as the model saw it, after the processor made it smaller or larger
	ShownHeight   int
	From          *Op // how it was made from an earlier one; nil for the prompt's
}

// Given reports whether a picture belongs to the prompt.
func (p Picture) Given() bool { return p.From == nil }

// Hash is SHA-256 of its size and pixels.
func (p Picture) Hash() string {
	if p.Image == nil {
		return ""
	}
	h := sha256.New()
	fmt.Fprintf(h, "%dx%d\n", p.Width, p.Height)
	h.Write(p.Image.Pix)
	return hex.EncodeToString(h.Sum(nil))
}

// An Album is an episode's pictures in the order in which the model saw them.
type Album struct {
	Pictures []Picture
	Clip     []*vision.Image // the frames of a clip that the episode is about
	// Keep makes the kept form of a picture that a tool made: itself, or a smaller one; nil: itself.
	Keep func(*vision.Image) (*vision.Image, error)
}

// NewAlbum is the prompt's pictures.
func NewAlbum(pictures ...*vision.Image) *Album {
	a := &Album{}
	for _, m := range pictures {
		a.Add(m, nil)
	}
	return a
}

// Add appends a picture, shown as large as it is until Show says otherwise.
func (a *Album) Add(m *vision.Image, from *Op) {
	a.Pictures = append(a.Pictures, Picture{m, m.Width, m.Height, m.Width, m.Height, from})
}

// made appends a picture that an operation made, as much of it as is kept.
func (a *Album) made(m *vision.Image, op Op) error {
	if a.Keep == nil {
		a.Add(m, &op)
		return nil
	}
	kept, err := a.Keep(m)
	if err != nil {
		return err
	}
	if kept != m && op.Kind != "program" {
		op.ToWidth, op.ToHeight = kept.Width, kept.Height
	}
	a.Add(kept, &op)
	return nil
}

// Sized appends a picture of which only the sizes are known.
func (a *Album) Sized(width, height, shownWidth, shownHeight int, from *Op) {
	a.Pictures = append(a.Pictures, Picture{nil, width, height, shownWidth, shownHeight, from})
}

// Show records as how large a picture was shown.
func (a *Album) Show(i, width, height int) {
	a.Pictures[i].ShownWidth, a.Pictures[i].ShownHeight = width, height
}

// picture is picture i, counted from 0.
func (a *Album) picture(i int) (Picture, error) {
	if i < 0 || i >= len(a.Pictures) {
		return Picture{}, refuse(NoPicture, "IndexError", "there is no picture %d: they are numbered 1 to %d", i+1, len(a.Pictures))
	}
	return a.Pictures[i], nil
}

// given is how many of the prompt's pictures come first.
func (a *Album) given() int {
	for i, p := range a.Pictures {
		if !p.Given() {
			return i
		}
	}
	return len(a.Pictures)
}

// ToRoot is a box of picture i in pixels of the prompt's picture that it was cropped from, step by step, and the
// number of that picture. ok is false after a step other than a crop: a turned or painted picture has no rectangle in
// its source.
func (a *Album) ToRoot(i int, b Box) (root int, out Box, ok bool) {
	for i >= 0 && i < len(a.Pictures) {
		op := a.Pictures[i].From
		if op == nil {
			return i, b, true
		}
		if op.Kind != "crop" || op.Picture >= i {
			return i, b, false
		}
		if op.ToWidth > 0 { // the crop was resized
			rx, ry := float64(op.Rect.Width())/float64(op.ToWidth), float64(op.Rect.Height())/float64(max(1, op.ToHeight))
			b = Box{b[0] * rx, b[1] * ry, b[2] * rx, b[3] * ry}
		}
		sx, sy := 1.0, 1.0 // a source that was cropped as it was shown
		if op.Shown {
			p := a.Pictures[op.Picture]
			sx, sy = float64(p.Width)/float64(max(1, p.ShownWidth)), float64(p.Height)/float64(max(1, p.ShownHeight))
		}
		x, y := float64(op.Rect[0]), float64(op.Rect[1])
		b = Box{(b[0] + x) * sx, (b[1] + y) * sy, (b[2] + x) * sx, (b[3] + y) * sy}
		i = op.Picture
	}
	return i, b, false
}

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
	for _, b := range Builtins() {
		if draw := b.Ops[o.Kind]; draw != nil {
			return draw(m, o)
		}
	}
	return nil, fmt.Errorf("%q is nothing that can be done to a picture", o.Kind)
}
