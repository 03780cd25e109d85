package scenes

import (
	"slices"
	"strings"
)

// template is a glyph's pixels in a cell.
type template struct {
	ink  [cell * cell]bool
	area int
}

var templates = func() []template {
	out := make([]template, len(Letters))
	for i := range out {
		for p := range out[i].ink {
			if inGlyph(Letters[i], p%cell, p/cell) {
				out[i].ink[p] = true
				out[i].area++
			}
		}
	}
	return out
}()

// ocr compares the mask of the colour asked for with the glyphs, a cell a letter, at every
// offset within 6 pixels to the sides and 10 up or down of the word's place. The reward is
// half the share of letters read right, half the mean IoU with the letters asked for, at the
// offset where the glyphs fit best.
func (s *segments) ocr(scene Scene) (reward float64, strict bool) {
	k := uint8(slices.Index(Colors, scene.Color))
	pixels, top, bottom := 0, Size, 0
	for i, c := range s.near {
		if c == k {
			pixels++
			top, bottom = min(top, i/Size), max(bottom, i/Size)
		}
	}
	n := len(scene.Text)
	if pixels < 30 {
		return 0, false
	}
	x0, y0 := int(scene.Box[0]), int(scene.Box[1])
	best, fits := float32(-1), [][]float32(nil)
	for y := max(0, y0-10); y <= min(Size-cell, y0+10); y++ {
		if off := float64(y) + cell/2 - float64(float64(top+bottom+1)/2); off > 4 || off < -4 {
			continue
		}
		for x := max(0, x0-6); x <= min(Size-cell*n, x0+6); x++ {
			v := make([][]float32, n)
			var sum float32
			for i := range v {
				v[i] = s.fit(k, x+i*cell, y)
				sum += slices.Max(v[i])
			}
			if score := sum / float32(n); score > best {
				best, fits = score, v
			}
		}
	}
	if fits == nil {
		return 0, false
	}
	right, soft := 0, float32(0)
	for i, v := range fits {
		want := strings.IndexByte(Letters, scene.Text[i])
		if slices.Index(v, slices.Max(v)) == want {
			right++
		}
		soft += v[want]
	}
	return float64(0.5*float64(right)/float64(n)) + float64(0.5*float64(soft/float32(n))), right == n
}

// fit is the IoU of the cell at x, y with every letter.
func (s *segments) fit(k uint8, x, y int) []float32 {
	area, both := s.shared(k, x, y)
	out := make([]float32, len(templates))
	for i, b := range both {
		out[i] = float32(b) / float32(area+templates[i].area-b)
	}
	return out
}

// shared is how many pixels of the cell at x, y have the colour, and how many of them each letter
// covers.
func (s *segments) shared(k uint8, x, y int) (area int, both [len(glyphs)]int) {
	for p := range cell * cell {
		if s.near[(y+p/cell)*Size+x+p%cell] != k {
			continue
		}
		area++
		for i := range both {
			if templates[i].ink[p] {
				both[i]++
			}
		}
	}
	return area, both
}
