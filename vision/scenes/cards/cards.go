// Package cards draws tables with coloured cards, each with a small digit among blots of the
// same ink. A table is Side pixels a side: a model that is shown it made smaller sees the cards
// and their colours, and no digit. The question "which digit is on the red card?" needs a crop. Two lamps
// light the table, so that each part of it looks like where it lies.
//
//	t := cards.Random(rng.New(7).With("table"))
//	m := t.Draw()                     // vision.Image
//	t.Question(0), t.Cards[0].Digit   // and the box that a crop must show
//
// Boxes are whole pixels of the picture at full size.
package cards

import (
	"fmt"
	"image"
	"image/color"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/vision"
)

// Side is how many pixels a side a table has.
const Side = 512

// Most is how many cards lie on a table at most, and fewest at least.
const (
	Most   = 4
	fewest = 3
)

// Colours are the cards'.
var Colours = []string{"red", "green", "blue", "yellow", "purple", "cyan"}

var paints = map[string]color.RGBA{
	"red": {225, 55, 50, 255}, "green": {50, 170, 70, 255}, "blue": {60, 105, 235, 255}, "yellow": {240, 220, 50, 255},
	"purple": {165, 75, 205, 255}, "cyan": {70, 215, 230, 255},
}

// ink is the colour of digits and blots.
var ink = color.RGBA{15, 15, 20, 255}

const (
	times       = 4 // a digit's dot, in pixels
	digitWidth  = 7 * times
	digitHeight = 13 * times
)

// A Card lies on a table.
type Card struct {
	Colour string
	Digit  int
	Box    image.Rectangle
	at     image.Point // of the digit
}

// A Table is cards of different colours that do not touch.
type Table struct {
	Cards []Card
	key   rng.Key
}

// Random is the table of a key.
func Random(key rng.Key) Table {
	r := key.With("cards").Draw()
	t := Table{key: key}
	colours := r.Perm(len(Colours))
	for n := fewest + r.Intn(Most-fewest+1); len(t.Cards) < n; {
		w, h := 76+r.Intn(13), 76+r.Intn(13)
		x, y := 8+r.Intn(Side-w-16), 8+r.Intn(Side-h-16)
		c := Card{Colour: Colours[colours[len(t.Cards)]], Digit: r.Intn(10), Box: image.Rect(x, y, x+w, y+h)}
		c.at = image.Pt(x+(w-digitWidth)/2-3+r.Intn(7), y+(h-digitHeight)/2-3+r.Intn(7))
		if t.free(c.Box.Inset(-8)) {
			t.Cards = append(t.Cards, c)
		}
	}
	return t
}

func (t Table) free(box image.Rectangle) bool {
	for _, c := range t.Cards {
		if box.Overlaps(c.Box) {
			return false
		}
	}
	return true
}

// Question asks for card i's digit.
func (t Table) Question(i int) string { return Question(t.Cards[i].Colour) }

// Question asks for the digit on the card of a colour.
func Question(colour string) string { return fmt.Sprintf("Which digit is on the %s card?", colour) }

// Draw is the picture.
func (t Table) Draw() *vision.Image {
	r := t.key.With("paint").Draw()
	m := lit(110 + r.Intn(40))
	for range 24 { // stains, so that the table is not one colour
		stain, by := image.Rect(0, 0, 5+r.Intn(40), 5+r.Intn(40)), r.Intn(37)-18
		shadow(m, stain.Add(image.Pt(r.Intn(Side), r.Intn(Side))).Intersect(m.Bounds()), by)
	}
	for _, c := range t.Cards {
		m.Fill(c.Box, varied(paints[c.Colour], r))
		digit := image.Rectangle{c.at, c.at.Add(image.Pt(digitWidth, digitHeight))}
		for bold := range 2 {
			m.Text(c.at.X+bold, c.at.Y, fmt.Sprint(c.Digit), ink, times)
		}
		blots(m, c.Box.Inset(2), digit.Inset(-2), r)
	}
	return m
}

// lit is an empty table with a red lamp on its right and a blue one below: the look of a part tells its place.
func lit(shade int) *vision.Image {
	m := vision.NewFilled(Side, Side, color.RGBA{uint8(shade), uint8(shade), uint8(shade), 255})
	for y := range Side {
		row := m.Row(y)
		for x := range Side {
			row[3*x], row[3*x+2] = lamp(shade, x), lamp(shade, y)
		}
	}
	return m
}

// lamp is how light a place is, from 60 below the shade to 60 above it.
func lamp(shade, at int) uint8 { return uint8(shade - 60 + 120*at/(Side-1)) }

// shadow makes a rectangle lighter or darker.
func shadow(m *vision.Image, in image.Rectangle, by int) {
	for y := in.Min.Y; y < in.Max.Y; y++ {
		for part := m.Row(y)[3*in.Min.X : 3*in.Max.X]; len(part) > 0; part = part[1:] {
			part[0] = uint8(min(max(int(part[0])+by, 0), 255))
		}
	}
}

// varied is a paint a little lighter or darker.
func varied(c color.RGBA, r *rng.Stream) color.RGBA {
	d := r.Intn(25) - 12
	change := func(v uint8) uint8 { return uint8(min(max(int(v)+d, 0), 255)) }
	return color.RGBA{change(c.R), change(c.G), change(c.B), 255}
}

// blots are as dark as the digit: how dark a card is does not tell which digit it has.
func blots(m *vision.Image, within, digit image.Rectangle, r *rng.Stream) {
	for n := 2 + r.Intn(3); n > 0; {
		x, y := within.Min.X+r.Intn(within.Dx()-5), within.Min.Y+r.Intn(within.Dy()-5)
		blot := image.Rect(x, y, x+3+r.Intn(4), y+3+r.Intn(4))
		if !blot.Overlaps(digit) {
			m.Fill(blot, ink)
		}
		n--
	}
}
