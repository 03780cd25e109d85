package scenes

import (
	"errors"
	"fmt"
)

// Card: the built-in recogniser reads words of Letters in the built-in font and any of Colors,
// without being told which word, where or in what colour. For each colour, words of one letter
// and more are laid over its pixels, at every place where they could lie; in each cell the letter
// counts that shares the most pixels with them for its size. The fit is the intersection over
// union of the whole word and all pixels of the colour, so that what the word leaves over counts
// against it. The best fit is read if it reaches readable.
//
// Between "nothing is written", which is an answer, and "something is there that is no word of
// this font", which is an error, lies the size of the smallest letter.
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

// cleaned has nothing but the regions of colours that are no specks.
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
