package scenes

import (
	"math"
	"slices"
)

// Ground is the share of pixels of the background's colour, of all that have a background's: what
// Score's formulas hardly look at. It sees backgrounds that drift while the objects become better.
func (s Scene) Ground(px []uint8) float64 {
	k := uint8(len(Colors) + slices.Index(Backgrounds, s.Background))
	right, all := 0, 0
	for _, near := range segment(px).near {
		if int(near) >= len(Colors) {
			all++
		}
		if near == k {
			right++
		}
	}
	return float64(right) / float64(max(1, all))
}

// Shade is how near the background's colour is to the one asked for, over the pixels that have a
// background's or hardly any colour: 1 at it, 0 where the nearest other background is, linear
// between. Ground counts a pixel as right until it is half-way to another; this sees a drift from its
// first level on. (Half-way from black to gray the palette's nearest colour is green, so that what is
// nearest does not decide alone.)
func (s Scene) Shade(px []uint8) float64 {
	asked := background(s.Background)
	far := math.Inf(1)
	for _, b := range Backgrounds {
		if b != s.Background {
			far = min(far, apart(asked[:], background(b)))
		}
	}
	sum, all := 0.0, 0
	for i, near := range segment(px).near {
		if p := px[3*i : 3*i+3]; int(near) >= len(Colors) || slices.Max(p)-slices.Min(p) < colourless {
			sum += max(0, 1-apart(p, asked)/far)
			all++
		}
	}
	return sum / float64(max(1, all))
}

// colourless is a range of a pixel's channels: a third of the palest colour's.
const colourless = 40

// apart is the distance of two colours.
func apart(a []uint8, b [3]uint8) float64 {
	sum := 0
	for j, v := range b {
		d := int(a[j]) - int(v)
		sum += d * d
	}
	return math.Sqrt(float64(sum))
}
