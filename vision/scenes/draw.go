package scenes

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/portable"
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
func (s Scene) Draw(shift Shift) []uint8 { return s.painted(shift).px }

// A painting is a picture, with the object of each fine point, counted from 1, and the word's corner.
type painting struct {
	px, over []uint8
	x, y     int
}

func (s Scene) painted(shift Shift) painting {
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
	p := painting{px: px, over: over}
	if s.Family == Word {
		dx, dy, _ := shift(true, 0)
		p.x, p.y = int(s.Box[0])+int(dx), int(s.Box[1])+int(dy)
		s.write(px, p.x, p.y)
	}
	return p
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

const (
	dot  = 3       // pixels a side of a glyph's dot
	cell = 6 * dot // pixels a side of a glyph
)

// glyphs are the capital Letters in PIL's built-in bitmap font, six rows of six dots.
var glyphs = [...][6]uint8{
	{0b111100, 0b011100, 0b010100, 0b111110, 0b110110, 0b110111}, // A
	{0b011110, 0b110110, 0b110000, 0b110000, 0b110110, 0b011100}, // C
	{0b111100, 0b110110, 0b110110, 0b110110, 0b110110, 0b111100}, // D
	{0b111110, 0b110000, 0b111100, 0b110000, 0b110110, 0b111110}, // E
	{0b011100, 0b110110, 0b110000, 0b111110, 0b110110, 0b011110}, // G
	{0b110111, 0b111010, 0b111010, 0b110110, 0b110110, 0b110010}, // N
	{0b011100, 0b110110, 0b110110, 0b110110, 0b110110, 0b011100}, // O
	{0b111100, 0b110110, 0b110110, 0b111100, 0b110000, 0b111000}, // P
	{0b111100, 0b110110, 0b110110, 0b111100, 0b110110, 0b111011}, // R
	{0b011110, 0b110010, 0b111100, 0b001110, 0b100110, 0b111100}, // S
	{0b111110, 0b011010, 0b011000, 0b011000, 0b011000, 0b111100}, // T
	{0b110111, 0b110110, 0b110110, 0b110110, 0b110110, 0b011100}, // U
}

// inGlyph reports whether pixel x, y of a letter's cell is ink.
func inGlyph(letter byte, x, y int) bool {
	i := strings.IndexByte(Letters, letter)
	return i >= 0 && glyphs[i][y/dot]>>(5-x/dot)&1 == 1
}

// Degradations are typical defects of generators that fail, or that hack a reward: a judge of quality must rank them
// below the picture as it was drawn.
var Degradations = []string{"noise", "blur", "blocks", "fade", "ghost", "stain", "ripple", "bleed"}

// Products that are added are rounded first, so that no compiler fuses them: the same bytes
// everywhere.

// Degrade is a picture with one kind of damage. The strength is between 0, hardly to be seen,
// and 1, ruined.
func Degrade(px []uint8, kind string, strength float64, r *rng.Stream) ([]uint8, error) {
	f, ok := damages[kind]
	if !ok {
		return nil, fmt.Errorf("there is no degradation %q; there are %q", kind, Degradations)
	}
	if len(px) != Size*Size*3 || !(strength >= 0 && strength <= 1) {
		return nil, fmt.Errorf("a degradation of strength %v of %d bytes: 0 to 1, of %d bytes", strength, len(px), Size*Size*3)
	}
	return f(px, strength, r), nil
}

var damages = map[string]func(px []uint8, strength float64, r *rng.Stream) []uint8{
	"noise": func(px []uint8, strength float64, r *rng.Stream) []uint8 {
		amount := 12 + float64(60*strength)
		return each(px, func(v float64, _, _, _ int) float64 { return v + float64(amount*normal(r)) })
	},
	"blur": func(px []uint8, strength float64, _ *rng.Stream) []uint8 { return blur(px, 1+int(4*strength)) },
	"blocks": func(px []uint8, strength float64, _ *rng.Stream) []uint8 {
		side := 3 + int(6*strength)
		return sampled(px, func(x, y int) (int, int) { return x/side*side + side/2, y/side*side + side/2 })
	},
	"fade": func(px []uint8, strength float64, r *rng.Stream) []uint8 {
		keep, to := 0.75-float64(0.5*strength), 60+float64(140*r.Float64())
		return each(px, func(v float64, _, _, _ int) float64 { return to + float64(keep*(v-to)) })
	},
	"ghost": func(px []uint8, strength float64, r *rng.Stream) []uint8 {
		dx, dy, share := 4+r.Intn(8), 3+r.Intn(8), 0.25+float64(0.2*strength)
		shifted := sampled(px, func(x, y int) (int, int) { return x - dx, y - dy })
		return each(px, func(v float64, _, _, i int) float64 { return v + float64(share*(float64(shifted[i])-v)) })
	},
	"stain": func(px []uint8, strength float64, r *rng.Stream) []uint8 {
		out := slices.Clone(px)
		for range 2 + int(6*strength) {
			cx, cy, radius := float64(r.Intn(Size)), float64(r.Intn(Size)), 1.5+float64(3.5*r.Float64())
			ink := palette[r.Intn(len(palette))]
			out = each(out, func(v float64, x, y, i int) float64 {
				if portable.Hypot(float64(x)-cx, float64(y)-cy) > radius {
					return v
				}
				return float64(0.5*v) + float64(0.5*float64(ink[i%3]))
			})
		}
		return out
	},
	"ripple": func(px []uint8, strength float64, r *rng.Stream) []uint8 {
		amount, phase, pace := 1.2+float64(3*strength), 2*math.Pi*r.Float64(), 0.5+float64(0.5*r.Float64())
		return sampled(px, func(x, y int) (int, int) {
			return x + int(math.Round(amount*portable.Sin(float64(pace*float64(y))+phase))), y + int(math.Round(amount*portable.Sin(float64(pace*float64(x))+2*phase)))
		})
	},
	"bleed": func(px []uint8, strength float64, _ *rng.Stream) []uint8 {
		// Colours run, and brightness stays where it was.
		soft := blur(px, 3+int(4*strength))
		brightness := func(px []uint8, i int) float64 {
			at := i - i%3
			return float64(0.299*float64(px[at])) + float64(0.587*float64(px[at+1])) + float64(0.114*float64(px[at+2]))
		}
		return each(px, func(v float64, _, _, i int) float64 {
			return float64(soft[i]) + brightness(px, i) - brightness(soft, i)
		})
	},
}

// each is every byte anew: its value, its pixel and its index are given.
func each(px []uint8, f func(v float64, x, y, i int) float64) []uint8 {
	out := make([]uint8, len(px))
	for i, v := range px {
		p := i / 3
		out[i] = uint8(min(max(math.Round(f(float64(v), p%Size, p/Size, i)), 0), 255))
	}
	return out
}

// sampled takes every pixel from another place, the nearest inside.
func sampled(px []uint8, from func(x, y int) (int, int)) []uint8 {
	out := make([]uint8, len(px))
	for p := range len(px) / 3 {
		x, y := from(p%Size, p/Size)
		x, y = min(max(x, 0), Size-1), min(max(y, 0), Size-1)
		copy(out[3*p:3*p+3], px[3*(y*Size+x):])
	}
	return out
}

// blur is the mean over a square of 2·radius+1 pixels, in two passes.
func blur(px []uint8, radius int) []uint8 {
	for _, step := range [][2]int{{1, 0}, {0, 1}} {
		src := px
		px = each(src, func(_ float64, x, y, i int) float64 {
			sum := 0.0
			for d := -radius; d <= radius; d++ {
				u, v := min(max(x+d*step[0], 0), Size-1), min(max(y+d*step[1], 0), Size-1)
				sum += float64(src[3*(v*Size+u)+i%3])
			}
			return sum / float64(2*radius+1)
		})
	}
	return px
}

// normal is a draw of the normal distribution (Box and Muller).
func normal(r *rng.Stream) float64 {
	return math.Sqrt(-2*portable.Log(1-r.Float64())) * portable.Cos(2*math.Pi*r.Float64())
}
