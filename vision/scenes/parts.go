package scenes

import (
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// A Part is an object or a letter in a picture, for detectors: its label, and its share of every pixel that no other
// covers.
type Part struct {
	Label string // of Labels
	Color string
	Share []float32 // of Size x Size pixels, up to 1
}

// Letter is the label of all letters: a detector counts and places them, a reader reads them.
const Letter = "letter"

// Labels are those of parts: Shapes, and Letter.
func Labels() []string { return append(slices.Clone(Shapes), Letter) }

// Parts is Draw's picture, and the parts that are seen in it.
func (s Scene) Parts(shift Shift) (px []uint8, parts []Part) {
	p := s.painted(shift)
	for i, o := range s.Objects {
		part := Part{Label: o.Shape, Color: o.Color, Share: make([]float32, Size*Size)}
		for at, ink := range p.over {
			if int(ink) == i+1 {
				part.Share[at/(Size*fine)/fine*Size+at%(Size*fine)/fine] += 1.0 / (fine * fine)
			}
		}
		parts = append(parts, part)
	}
	if s.Family == Word {
		for i := range len(s.Text) {
			part := Part{Label: Letter, Color: s.Color, Share: make([]float32, Size*Size)}
			for at := range part.Share {
				if dx, dy := at%Size-p.x-i*cell, at/Size-p.y; dx >= 0 && dx < cell && dy >= 0 && dy < cell && inGlyph(s.Text[i], dx, dy) {
					part.Share[at] = 1
				}
			}
			parts = append(parts, part)
		}
	}
	return p.px, slices.DeleteFunc(parts, func(p Part) bool { _, seen := p.Box(); return !seen })
}

// Box spans the pixels of which the part has half and more; not seen where there is none.
func (p Part) Box() (b Box, seen bool) {
	b = Box{Size, Size, 0, 0}
	for at, share := range p.Share {
		if share >= 0.5 {
			x, y := float64(at%Size), float64(at/Size)
			b, seen = Box{min(b[0], x), min(b[1], y), max(b[2], x+1), max(b[3], y+1)}, true
		}
	}
	return b, seen
}

// Wanted are the objects of a caption, in their canonical places; of a word, its letters.
func (s Scene) Wanted() []Object {
	all := slices.Clone(s.Objects)
	if s.Family == Word {
		_, letters := s.Parts(nil)
		for _, p := range letters {
			b, _ := p.Box()
			all = append(all, Object{p.Color, p.Label, b})
		}
	}
	return all
}

// The sides of scattered objects.
const leastSide, mostSide = 12, 34

// Scattered is one to four objects anywhere, which hardly touch, of any colours and shapes. It has no caption.
func Scattered(r *rng.Stream) Scene {
	s := Scene{Background: pick(r, Backgrounds)}
	for range 1 + r.Intn(4) {
		for range 8 { // tries
			side := leastSide + float64((mostSide-leastSide)*r.Float64())
			half := float64(side / 2)
			b := around(half+float64((Size-side)*r.Float64()), half+float64((Size-side)*r.Float64()), side)
			if !slices.ContainsFunc(s.Objects, func(o Object) bool { return touching(o.Box, b) }) {
				s.Objects = append(s.Objects, Object{pick(r, Colors), pick(r, Shapes), b})
				break
			}
		}
	}
	return s
}

// touching boxes share more than a corner.
func touching(a, b Box) bool {
	const corner = 2
	return min(a[2], b[2])-max(a[0], b[0]) > corner && min(a[3], b[3])-max(a[1], b[1]) > corner
}
