package vision

import (
	"fmt"
	"image"
	"image/color"
	"math"
	"unicode"

	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"
)

// Evidence of rewards, drawn for people: boxes with labels, masks. Pictures are painted over; draw on a Clone where
// the picture itself is still needed.

// Palette is a colour for the i-th thing: eight that people with any colour vision can tell
// apart (Okabe and Ito, 2008), then again from the start.
func Palette(i int) color.RGBA {
	all := [...]color.RGBA{
		{230, 159, 0, 255}, {86, 180, 233, 255}, {0, 158, 115, 255}, {213, 94, 0, 255},
		{0, 114, 178, 255}, {204, 121, 167, 255}, {240, 228, 66, 255}, {120, 120, 120, 255},
	}
	return all[uint(i)%uint(len(all))]
}

// A Mark is a box to be drawn.
type Mark struct {
	X0, Y0, X1, Y1 float64    // in pixels; in any order, and beyond the picture where they like
	Label          string     // nothing: no tag
	Colour         color.RGBA // zero: the palette's by the mark's place
	Dashed         bool       // wanted, say, rather than found
}

// Draw paints marks, the first below the others, and all labels above the boxes. Lines grow
// with the picture.
func (m *Image) Draw(marks []Mark) {
	line := max(1, min(m.Width, m.Height)/160)
	var tags []func()
	for i, mark := range marks {
		if mark.Colour == (color.RGBA{}) {
			mark.Colour = Palette(i)
		}
		r, ok := m.pixelsOf(mark)
		if !ok {
			continue
		}
		m.outline(r, line, mark.Colour, mark.Dashed)
		if mark.Label != "" {
			tags = append(tags, func() { m.tag(r, line, mark) })
		}
	}
	for _, paint := range tags {
		paint()
	}
}

// pixelsOf are the pixels that a mark covers; not ok where it holds NaN. One picture's size beyond the edge is as far
// as anything can be seen.
func (m *Image) pixelsOf(k Mark) (image.Rectangle, bool) {
	near := func(v float64, size int) int {
		return int(math.RoundToEven(min(max(v, -float64(size)), 2*float64(size))))
	}
	for _, v := range []float64{k.X0, k.Y0, k.X1, k.Y1} {
		if math.IsNaN(v) {
			return image.Rectangle{}, false
		}
	}
	r := image.Rect(near(k.X0, m.Width), near(k.Y0, m.Height), near(k.X1, m.Width), near(k.Y1, m.Height))
	r.Max.X, r.Max.Y = max(r.Max.X, r.Min.X+1), max(r.Max.Y, r.Min.Y+1)
	return r, true
}

func (m *Image) outline(r image.Rectangle, line int, c color.RGBA, dashed bool) {
	dash := func(x, y, w, h int) {
		step := max(w, h)
		if dashed {
			step = 4 * line
		}
		for at := 0; at < max(w, h); at += 2 * step {
			if w >= h {
				m.Fill(image.Rect(x+at, y, x+min(at+step, w), y+h), c)
			} else {
				m.Fill(image.Rect(x, y+at, x+w, y+min(at+step, h)), c)
			}
		}
	}
	t := min(line, r.Dx(), r.Dy())
	dash(r.Min.X, r.Min.Y, r.Dx(), t)
	dash(r.Min.X, r.Max.Y-t, r.Dx(), t)
	dash(r.Min.X, r.Min.Y, t, r.Dy())
	dash(r.Max.X-t, r.Min.Y, t, r.Dy())
}

// tag writes a label on a ground of the mark's colour: above the box, or below it where there
// is no room and for dashed ones; and always within the picture as far as it fits.
func (m *Image) tag(r image.Rectangle, line int, k Mark) {
	times := max(1, line/2)
	w, h := TextSize([]string{k.Label}, times)
	w, h = w+2*times, h+2*times
	x, y := r.Min.X, r.Min.Y-h
	if y < 0 || k.Dashed {
		y = r.Max.Y
	}
	if y+h > m.Height {
		y = max(r.Min.Y, 0)
	}
	x, y = max(min(x, m.Width-w), 0), max(min(y, m.Height-h), 0)
	m.Fill(image.Rect(x, y, x+w, y+h), k.Colour)
	m.Text(x+times, y+times, k.Label, readableOn(k.Colour), times)
}

// readableOn is black or white: the one with more contrast.
func readableOn(c color.RGBA) color.RGBA {
	if 299*int(c.R)+587*int(c.G)+114*int(c.B) > 128*1000 {
		return color.RGBA{0, 0, 0, 255}
	}
	return color.RGBA{255, 255, 255, 255}
}

// DrawMask tints the pixels where on is true and outlines them. on has one entry a pixel,
// row-major.
func (m *Image) DrawMask(on []bool, c color.RGBA) error {
	if len(on) != m.Width*m.Height {
		return fmt.Errorf("a mask of %d pixels for a picture of %d x %d: resize it to the picture first", len(on), m.Width, m.Height)
	}
	at := func(x, y int) bool {
		return x >= 0 && x < m.Width && y >= 0 && y < m.Height && on[y*m.Width+x]
	}
	for y := range m.Height {
		for x := range m.Width {
			if !at(x, y) {
				continue
			}
			p := m.Pix[3*(y*m.Width+x):][:3]
			if !at(x-1, y) || !at(x+1, y) || !at(x, y-1) || !at(x, y+1) {
				p[0], p[1], p[2] = c.R, c.G, c.B
				continue
			}
			p[0], p[1], p[2] = mean(p[0], c.R), mean(p[1], c.G), mean(p[2], c.B)
		}
	}
	return nil
}

func mean(a, b uint8) uint8 { return uint8((int(a) + int(b)) / 2) }

// Text is drawn with the bitmap font of X11 known as 7x13: for labels and captions. It knows
// printable ASCII; other characters become a box. Larger text repeats pixels.

const (
	glyphWidth  = 7
	glyphHeight = 13
)

// TextSize is the room that lines of text take, enlarged times times.
func TextSize(lines []string, times int) (width, height int) {
	for _, line := range lines {
		width = max(width, len([]rune(line))*glyphWidth*times)
	}
	return width, len(lines) * glyphHeight * times
}

// Text draws one line with its upper left corner at (x, y), enlarged times times. Text beyond the picture is cut off.
func (m *Image) Text(x, y int, line string, c color.RGBA, times int) {
	face := basicfont.Face7x13
	for _, r := range line {
		if !unicode.IsPrint(r) {
			r = unicode.ReplacementChar
		}
		at, mask, from, _, _ := face.Glyph(fixed.P(0, face.Ascent), r)
		for dy := range at.Dy() {
			for dx := range at.Dx() {
				if _, _, _, a := mask.At(from.X+dx, from.Y+dy).RGBA(); a != 0 {
					px, py := x+(at.Min.X+dx)*times, y+(at.Min.Y+dy)*times
					m.Fill(image.Rect(px, py, px+times, py+times), c)
				}
			}
		}
		x += glyphWidth * times
	}
}

// wrap breaks a text into lines of at most width characters, at spaces where it can, and
// ends with "..." where lines do not suffice.
func wrap(text string, width, lines int) []string {
	width = max(width, 4)
	var out []string
	var line []rune
	flush := func() { out, line = append(out, string(line)), nil }
	for _, paragraph := range splitLines(text) {
		for _, word := range paragraph {
			if len(line) > 0 && len(line)+1+len(word) > width {
				flush()
			}
			if len(line) > 0 {
				line = append(line, ' ')
			}
			line = append(line, word...)
			for len(line) > width {
				rest := line[width:]
				line = line[:width]
				flush()
				line = append(line, rest...)
			}
		}
		flush()
	}
	if len(out) > lines {
		out = out[:lines]
		last := []rune(out[lines-1])
		out[lines-1] = string(last[:min(len(last), width-3)]) + "..."
	}
	return out
}

// splitLines are a text's lines, as words.
func splitLines(text string) [][][]rune {
	lines := [][][]rune{nil}
	var word []rune
	end := func() {
		if len(word) > 0 {
			last := len(lines) - 1
			lines[last] = append(lines[last], word)
			word = nil
		}
	}
	for _, r := range text {
		switch {
		case r == '\n':
			end()
			lines = append(lines, nil)
		case unicode.IsSpace(r):
			end()
		default:
			word = append(word, r)
		}
	}
	end()
	return lines
}
