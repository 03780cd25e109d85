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

// A layout is where things of a sheet stand, in pixels of the sheet.
type layout struct {
	width, height int // of a cell's picture
	text          int // the height of captions
	top           int // of the first row
	rows          int
	title         []string
	captions      [][]string
}

// cell is the upper left corner of a cell.
func (l layout) cell(s Sheet, i int) (x, y int) {
	return s.Padding + i%s.Columns*(l.width+s.Padding), l.top + i/s.Columns*(l.height+l.text+s.Padding)
}

// lay finds out where everything stands. The sheet that it returns has its defaults filled in.
func (s Sheet) lay(pictures []*Image) (Sheet, layout, error) {
	var l layout
	n := len(pictures)
	if n == 0 {
		return s, l, fmt.Errorf("a sheet needs at least one picture")
	}
	if len(s.Captions) != 0 && len(s.Captions) != n {
		return s, l, fmt.Errorf("a sheet of %d pictures with %d captions: give one each, or none", n, len(s.Captions))
	}
	s = s.filled(n)
	w, h := 0, 0 // of a picture
	for i, m := range pictures {
		if m == nil || m.Width <= 0 || m.Height <= 0 {
			return s, l, fmt.Errorf("picture %d of a sheet is empty", i)
		}
		w, h = max(w, m.Width), max(h, m.Height)
	}
	if per := int64(maxSheet) / int64(n); int64(w) > per/int64(s.Scale) || int64(h) > per/int64(s.Scale)/int64(w)/int64(s.Scale) {
		return s, l, fmt.Errorf("a sheet of %d pictures of %d x %d, enlarged %d times, is too large: show fewer, or smaller ones", n, w, h, s.Scale)
	}
	l.rows, l.width, l.height = (n+s.Columns-1)/s.Columns, w*s.Scale, h*s.Scale
	l.captions, l.text = s.captions(l.width)
	l.title = wrap(s.Title, (s.Columns*(l.width+s.Padding)-s.Padding)/(glyphWidth*s.TextSize), 3)
	l.top = s.Padding
	if s.Title != "" {
		_, th := TextSize(l.title, s.TextSize)
		l.top += th + s.Padding
	}
	return s, l, nil
}

// Draw makes the sheet.
func (s Sheet) Draw(pictures []*Image) (*Image, error) {
	s, l, err := s.lay(pictures)
	if err != nil {
		return nil, err
	}
	sheet := NewFilled(s.Padding+s.Columns*(l.width+s.Padding), l.top+l.rows*(l.height+l.text+s.Padding), s.Back)
	if s.Title != "" {
		s.write(sheet, s.Padding, s.Padding, l.title)
	}
	for i, m := range pictures {
		x, y := l.cell(s, i)
		big := m
		if s.Scale > 1 {
			big = m.Enlarge(s.Scale)
		}
		sheet.Paste(big, x+(l.width-big.Width)/2, y+(l.height-big.Height)/2)
		if len(l.captions) > 0 {
			s.write(sheet, x, y+l.height+2*s.TextSize, l.captions[i])
		}
	}
	return sheet, nil
}

// Places are where Draw puts the pictures: left, top, width and height of each, in pixels of the sheet.
func (s Sheet) Places(pictures []*Image) ([][4]int, error) {
	s, l, err := s.lay(pictures)
	if err != nil {
		return nil, err
	}
	var all [][4]int
	for i, m := range pictures {
		x, y := l.cell(s, i)
		w, h := m.Width*s.Scale, m.Height*s.Scale
		all = append(all, [4]int{x + (l.width-w)/2, y + (l.height-h)/2, w, h})
	}
	return all, nil
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
