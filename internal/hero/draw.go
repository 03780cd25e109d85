package main

import (
	"image"
	"image/color"
	pixels "image/draw"
	"strings"

	"github.com/darkroom-rl/darkroom/vision"
)

const (
	columns = 4
	side    = 96
	gap     = 4
	margin  = 14
	caption = 2 * 14
	mark    = 14 // room for ticks below a pair
	letters = (2*side + gap) / 7
)

var (
	paper = color.RGBA{252, 252, 252, 255}
	ink   = color.RGBA{36, 36, 48, 255}
	yes   = color.RGBA{20, 130, 60, 255}
	no    = color.RGBA{190, 40, 40, 255}
)

// draw lays pairs out, in as many pictures as their samples have frames.
func draw(pairs []pair) (all []*vision.Image, err error) {
	for frame := range pairs[0].before.frames {
		m, err := drawFrame(pairs, frame)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// drawFrame lays a frame of pairs out.
func drawFrame(pairs []pair, frame int) (*vision.Image, error) {
	cellWidth, cellHeight := 2*side+gap+margin, side+mark+caption+margin
	rows := (len(pairs) + columns - 1) / columns
	m := &vision.Image{Width: columns*cellWidth + margin, Height: rows*cellHeight + margin}
	m.Pix = make([]uint8, 3*m.Width*m.Height)
	m.Fill(m.Bounds(), paper)
	for i, p := range pairs {
		x, y := margin+i%columns*cellWidth, margin+i/columns*cellHeight
		for k, s := range []sample{p.before, p.after} {
			small, err := s.frames[frame].Resize(side, side, vision.Bicubic)
			if err != nil {
				return nil, err
			}
			left := x + k*(side+gap)
			m.Paste(small, left, y)
			m.Text(left+18, y+side+1, [...]string{"before", "after"}[k], ink, 1)
			tick(m, left+4, y+side+4, s.right)
		}
		for n, line := range lines(p.text) {
			m.Text(x, y+side+mark+2+13*n, line, ink, 1)
		}
	}
	return m, nil
}

// lines are a prompt in lines that fit below a pair.
func lines(text string) (all []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > letters {
			all, line = append(all, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(all, line)
}

// tick draws a tick, or a cross: they differ by more than their colour.
func tick(m *vision.Image, x, y int, right bool) {
	dot := func(dx, dy int, c color.RGBA) { m.Fill(image.Rect(x+dx, y+dy, x+dx+2, y+dy+2), c) }
	for i := range 8 {
		if !right {
			dot(i, i, no)
			dot(i, 7-i, no)
			continue
		}
		if i < 3 {
			dot(i, 4+i, yes)
		} else {
			dot(i, 9-i, yes)
		}
	}
}

// paletted has the picture's most frequent colours of 5 bits a channel.
func paletted(m *vision.Image) *image.Paletted {
	count := map[color.RGBA]int{}
	for i := 0; i < len(m.Pix); i += 3 {
		count[color.RGBA{m.Pix[i]&^7 | 4, m.Pix[i+1]&^7 | 4, m.Pix[i+2]&^7 | 4, 255}]++
	}
	palette := color.Palette{paper, ink, yes, no}
	for len(palette) < 256 && len(count) > 0 {
		var most color.RGBA
		for c, n := range count {
			if n > count[most] || n == count[most] && before(c, most) {
				most = c
			}
		}
		palette = append(palette, most)
		delete(count, most)
	}
	out := image.NewPaletted(m.Bounds(), palette)
	pixels.Draw(out, out.Bounds(), m, image.Point{}, pixels.Src) // the nearest colour
	return out
}

// before orders colours that are as frequent.
func before(a, b color.RGBA) bool {
	if a.R != b.R {
		return a.R < b.R
	}
	if a.G != b.G {
		return a.G < b.G
	}
	return a.B < b.B
}
