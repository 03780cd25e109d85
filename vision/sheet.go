package vision

import (
	"fmt"
	"image/color"
)

// A Sheet lays pictures out in a grid, for people to look at: a contact sheet.
//
// Cells are as large as the largest picture; smaller ones stand in the middle. A zero field
// means its default.
type Sheet struct {
	Columns  int      // as many as make the sheet about square
	Padding  int      // pixels around and between cells: 8; -1 for none
	Scale    int      // each pixel becomes Scale x Scale: 1
	Captions []string // one below each picture; none, or one a picture
	Lines    int      // of a caption, at most: 2
	TextSize int      // pixels of text are enlarged by this: 1
	Title    string   // above all
	Back     color.RGBA
	Ink      color.RGBA
}

// maxSheet bounds a sheet's pixels: nobody looks at more.
const maxSheet = 1 << 28

func (s Sheet) filled(n int) Sheet {
	if s.Columns <= 0 {
		for s.Columns = 1; s.Columns*s.Columns < n; s.Columns++ {
		}
	}
	s.Columns = min(s.Columns, n)
	switch {
	case s.Padding == 0:
		s.Padding = 8
	case s.Padding < 0:
		s.Padding = 0
	}
	s.Padding = min(s.Padding, 256)
	s.Scale, s.TextSize = max(s.Scale, 1), min(max(s.TextSize, 1), 16)
	if s.Lines <= 0 {
		s.Lines = 2
	}
	if s.Back == s.Ink {
		s.Back, s.Ink = color.RGBA{250, 250, 248, 255}, color.RGBA{30, 30, 34, 255}
	}
	return s
}

// Draw makes the sheet.
func (s Sheet) Draw(pictures []*Image) (*Image, error) {
	n := len(pictures)
	if n == 0 {
		return nil, fmt.Errorf("a sheet needs at least one picture")
	}
	if len(s.Captions) != 0 && len(s.Captions) != n {
		return nil, fmt.Errorf("a sheet of %d pictures with %d captions: give one each, or none", n, len(s.Captions))
	}
	s = s.filled(n)
	w, h := 0, 0 // of a picture
	for i, m := range pictures {
		if m == nil || m.Width <= 0 || m.Height <= 0 {
			return nil, fmt.Errorf("picture %d of a sheet is empty", i)
		}
		w, h = max(w, m.Width), max(h, m.Height)
	}
	rows := (n + s.Columns - 1) / s.Columns
	if per := int64(maxSheet) / int64(n); int64(w) > per/int64(s.Scale) || int64(h) > per/int64(s.Scale)/int64(w)/int64(s.Scale) {
		return nil, fmt.Errorf("a sheet of %d pictures of %d x %d, enlarged %d times, is too large: show fewer, or smaller ones", n, w, h, s.Scale)
	}
	w, h = w*s.Scale, h*s.Scale

	captions, text := s.captions(w)
	title := wrap(s.Title, (s.Columns*(w+s.Padding)-s.Padding)/(glyphWidth*s.TextSize), 3)
	top := s.Padding
	if s.Title != "" {
		_, th := TextSize(title, s.TextSize)
		top += th + s.Padding
	}
	sheet := NewFilled(s.Padding+s.Columns*(w+s.Padding), top+rows*(h+text+s.Padding), s.Back)
	if s.Title != "" {
		s.write(sheet, s.Padding, s.Padding, title)
	}
	for i, m := range pictures {
		x, y := s.Padding+i%s.Columns*(w+s.Padding), top+i/s.Columns*(h+text+s.Padding)
		big := m
		if s.Scale > 1 {
			big = m.Enlarge(s.Scale)
		}
		sheet.Paste(big, x+(w-big.Width)/2, y+(h-big.Height)/2)
		if len(captions) > 0 {
			s.write(sheet, x, y+h+2*s.TextSize, captions[i])
		}
	}
	return sheet, nil
}

// captions breaks the captions into lines, and says how high the highest is.
func (s Sheet) captions(width int) (lines [][]string, height int) {
	for _, c := range s.Captions {
		l := wrap(c, width/(glyphWidth*s.TextSize), s.Lines)
		_, h := TextSize(l, s.TextSize)
		lines, height = append(lines, l), max(height, h+2*s.TextSize)
	}
	return lines, height
}

func (s Sheet) write(m *Image, x, y int, lines []string) {
	for i, line := range lines {
		m.Text(x, y+i*glyphHeight*s.TextSize, line, s.Ink, s.TextSize)
	}
}
