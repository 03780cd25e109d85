package scenes

import (
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// palette is every colour: Colors, then Backgrounds.
var palette = [8][3]uint8{
	{220, 40, 40}, {40, 170, 70}, {50, 80, 220}, {240, 200, 40}, {150, 60, 180},
	{245, 245, 245}, {20, 20, 20}, {140, 140, 140},
}

func color(name string) [3]uint8      { return palette[slices.Index(Colors, name)] }
func background(name string) [3]uint8 { return palette[len(Colors)+slices.Index(Backgrounds, name)] }

// Shift moves and scales one object by up to amount pixels; a word by whole pixels.
type Shift func(word bool, amount float64) (dx, dy, scale float64)

// Jitter draws places and sizes: objects up to amount pixels off and 15 % larger or smaller,
// words up to 3 pixels to the sides and 6 up or down.
func Jitter(r *rng.Stream) Shift {
	return func(word bool, amount float64) (dx, dy, scale float64) {
		if word {
			return float64(r.Intn(7) - 3), float64(r.Intn(13) - 6), 1
		}
		between := func(a float64) float64 { return float64(a * (2*r.Float64() - 1)) }
		return between(amount), between(amount), 1 + between(0.15)
	}
}

// fine is how many points a side of a pixel is judged by; edges are their share.
const fine = 4

// Draw is the picture, Size x Size x 3; without a shift everything is in its place.
func (s Scene) Draw(shift Shift) []uint8 {
	if shift == nil {
		shift = func(bool, float64) (dx, dy, scale float64) { return 0, 0, 1 }
	}
	px := make([]uint8, Size*Size*3)
	bg := background(s.Background)
	for i := range px {
		px[i] = bg[i%3]
	}
	// Objects cover points of a finer grid, the later above the earlier; a pixel is the mean of
	// its points, rounded.
	over := make([]uint8, Size*Size*fine*fine)
	inks := [][3]uint8{bg}
	for _, o := range s.Objects {
		side := o.Box[2] - o.Box[0]
		amount := 2.0
		if side > 18 {
			amount = 3
		}
		dx, dy, scale := shift(false, amount)
		b := around(float64((o.Box[0]+o.Box[2])/2)+dx, float64((o.Box[1]+o.Box[3])/2)+dy, side*scale)
		inks = append(inks, color(o.Color))
		cover(over, uint8(len(inks)-1), o.Shape, b)
	}
	if len(inks) > 1 {
		average(px, over, inks)
	}
	if s.Family == Word {
		dx, dy, _ := shift(true, 0)
		s.write(px, int(s.Box[0])+int(dx), int(s.Box[1])+int(dy))
	}
	return px
}

// cover marks the fine points that a shape reaches. Corners are whole points, both ends
// included, as drawing libraries have it.
func cover(over []uint8, ink uint8, shape string, b Box) {
	x0, y0, x1, y1 := int(b[0]*fine), int(b[1]*fine), int(b[2]*fine), int(b[3]*fine)
	w, h := float64(x1-x0), float64(y1-y0)
	for y := max(0, y0); y <= min(Size*fine-1, y1); y++ {
		lo, hi := x0, x1
		t := float64(y - y0)
		switch shape {
		case "circle":
			v := (2*t - h) / (h + 1)
			half := float64((w + 1) / 2 * math.Sqrt(max(0, 1-float64(v*v))))
			lo, hi = int(math.Ceil(float64(x0)+float64(w/2)-half)), int(math.Floor(float64(x0)+float64(w/2)+half))
		case "triangle":
			lo, hi = int(math.Round(float64(x0)+float64(w/2*(1-t/h)))), int(math.Round(float64(x1)-float64(w/2*(1-t/h))))
		}
		for x := max(0, lo); x <= min(Size*fine-1, hi); x++ {
			over[y*Size*fine+x] = ink
		}
	}
}

// average makes each pixel of its fine points.
func average(px, over []uint8, inks [][3]uint8) {
	for y := range Size {
		for x := range Size {
			var sum [3]int
			for i := range fine * fine {
				ink := inks[over[(y*fine+i/fine)*Size*fine+x*fine+i%fine]]
				for c := range sum {
					sum[c] += int(ink[c])
				}
			}
			for c := range sum {
				px[(y*Size+x)*3+c] = uint8((sum[c] + fine*fine/2) / (fine * fine))
			}
		}
	}
}

// write puts the word's glyphs on the picture, their corner at x, y.
func (s Scene) write(px []uint8, x, y int) {
	ink := color(s.Color)
	for i := range len(s.Text) {
		for dy := range cell {
			for dx := range cell {
				u, v := x+i*cell+dx, y+dy
				if inGlyph(s.Text[i], dx, dy) && u >= 0 && u < Size && v >= 0 && v < Size {
					copy(px[(v*Size+u)*3:], ink[:])
				}
			}
		}
	}
}
