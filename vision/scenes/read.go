package scenes

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Card: the built-in recogniser reads words of Letters in the built-in font and any of Colors, with no hint of word,
// place or colour. For each colour, words of one letter and more are laid over its pixels, at every place where they
// could lie; in each cell the letter counts that shares the most pixels with them for its size. The fit is the
// intersection over union of the whole word and all pixels of the colour, so that left-over pixels count against it.
// The best fit is read if it reaches readable.
//
// An empty picture is an answer, and an unreadable mark is an error: the size of the smallest letter divides the two.
// Invariants (tests): a drawn word is read exactly, jittered and under noise; a shape is not read.

// Written is a word that was read.
type Written struct {
	Text, Color string
	Box         Box
	Fit         float64 // up to 1
}

const (
	readable = 0.6 // of blurred and noisy words that people still read
	leastInk = 30  // pixels of a colour; the smallest letter has 117
)

// ErrUnreadable says that a picture holds something, but no word of the built-in font.
var ErrUnreadable = errors.New("nothing can be read as letters of the built-in font")

// Read is the words of a picture of Size x Size x 3, one a colour. None is an answer: the
// picture is empty.
func Read(px []uint8) ([]Written, error) {
	if err := sized(px); err != nil {
		return nil, err
	}
	s := segment(px).cleaned()
	var words []Written
	most, best := 0, 0.0
	for k := range Colors {
		ink := s.ink(uint8(k))
		if ink.pixels < leastInk {
			continue
		}
		w := s.word(uint8(k), ink)
		if most = max(most, ink.pixels); w.Fit >= readable {
			words = append(words, w)
		}
		best = max(best, w.Fit)
	}
	if len(words) == 0 && most > 0 {
		return nil, fmt.Errorf("%w (the best word fits by %.2f, and %.2f is needed)", ErrUnreadable, best, readable)
	}
	return words, nil
}

// cleaned has nothing but the regions of colours, without specks.
func (s *segments) cleaned() *segments {
	c := &segments{}
	for i := range c.near {
		c.near[i] = noColor
	}
	for _, r := range s.components() {
		for i, in := range r.in {
			if w := r.x1 - r.x0; in {
				c.near[(r.y0+i/w)*Size+r.x0+i%w] = uint8(r.color)
			}
		}
	}
	return c
}

const noColor = 255

// ink is where a colour is.
type ink struct{ pixels, x0, y0, x1, y1 int }

func (s *segments) ink(k uint8) ink {
	in := ink{x0: Size, y0: Size}
	for i, c := range s.near {
		if c == k {
			x, y := i%Size, i/Size
			in = ink{in.pixels + 1, min(in.x0, x), min(in.y0, y), max(in.x1, x+1), max(in.y1, y+1)}
		}
	}
	return in
}

// margin is how far from the edge of the ink a word may begin: every letter reaches the left and
// upper edge of its cell, but edges blur.
const margin = dot + 1

// word is the word of a colour that fits best.
func (s *segments) word(k uint8, in ink) Written {
	best := Written{Color: Colors[k]}
	for y := max(0, in.y0-margin); y <= min(Size-cell, in.y0+margin); y++ {
		for x := max(0, in.x0-margin); x <= min(Size-cell, in.x0+margin); x++ {
			text, both, area := "", 0, 0
			for at := x; at+cell <= Size && at < in.x1; at += cell {
				letter, shared := s.letter(k, at, y)
				if letter < 0 {
					break
				}
				text += Letters[letter : letter+1]
				both += shared
				area += templates[letter].area
				if fit := float64(both) / float64(in.pixels+area-both); fit > best.Fit {
					best.Text, best.Fit = text, fit
					best.Box = Box{float64(x), float64(y), float64(at + cell), float64(y + cell)}
				}
			}
		}
	}
	return best
}

// letter is the one that fits the cell at x, y best, and how many pixels it shares with it; -1
// where the cell is empty.
func (s *segments) letter(k uint8, x, y int) (letter, shared int) {
	area, both := s.shared(k, x, y)
	if area == 0 {
		return -1, 0
	}
	best := -1.0
	for i, b := range both {
		if fit := float64(b) / float64(area+templates[i].area-b); fit > best {
			best, letter, shared = fit, i, b
		}
	}
	return letter, shared
}

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
