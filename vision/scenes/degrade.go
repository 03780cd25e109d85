package scenes

import (
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/portable"
)

// Degradations are what generators do to pictures when they fail, or when a reward is hacked:
// what a judge of quality must rank below the picture as it was drawn.
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
