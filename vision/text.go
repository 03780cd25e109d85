package vision

import (
	"image"
	"image/color"
	"unicode"

	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"
)

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

// Text draws one line with its upper left corner at (x, y), enlarged times times. What does
// not fit the picture is cut off.
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
