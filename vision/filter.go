package vision

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// Card: resampling coefficients. For output pixel i of n, made of the span from a to b of
// the input, with s = (b-a)/n and f = max(s, 1):
//
//	centre = a + (i + 1/2) s                        in input pixels
//	taps   = the pixels whose centres lie within support*f of it, as far as there are any
//	weight = filter((x + 1/2 - centre) / f), normalised to a sum of 1
//
// so a shrinking filter widens (anti-aliasing) and an enlarging one does not. Source:
// Pillow's Resample.c; torch's anti-aliased interpolation has the same. Filters use math.Sin,
// which is plain Go on amd64 and arm64; the 22 bits that are kept of a weight do not see
// its last one.

// A Filter is a resampling filter, by Pillow's names.
type Filter int

const (
	Nearest  Filter = iota // no filter: one pixel is taken
	Box                    // the mean of whole pixels
	Bilinear               // a triangle
	Hamming                // sharper than Bilinear, of the same width
	Bicubic                // Keys' cubic, a = -1/2
	Lanczos                // sinc windowed by sinc, three lobes
)

var filterNames = []string{"nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"}

func (f Filter) String() string {
	if f < 0 || int(f) >= len(filterNames) {
		return fmt.Sprintf("filter %d", int(f))
	}
	return filterNames[f]
}

// FilterNamed finds a filter by Pillow's name in lower case.
func FilterNamed(name string) (Filter, error) {
	for i, n := range filterNames {
		if n == name {
			return Filter(i), nil
		}
	}
	return 0, fmt.Errorf("filter %q is not known; there are %v", name, filterNames)
}

// support is half the width within which a filter is not zero.
func (f Filter) support() float64 {
	return [...]float64{0, 0.5, 1, 1, 2, 3}[f]
}

func (f Filter) at(x float64) float64 {
	switch f {
	case Box:
		if x > -0.5 && x <= 0.5 {
			return 1
		}
	case Bilinear:
		if x = math.Abs(x); x < 1 {
			return 1 - x
		}
	case Hamming:
		switch x = math.Abs(x); {
		case x == 0:
			return 1
		case x < 1:
			x *= math.Pi
			return portable.Sin(x) / x * (float64(float32(0.54)) + float64(float64(float32(0.46))*portable.Cos(x)))
		}
	case Bicubic:
		return keys(math.Abs(x), -0.5)
	case Lanczos:
		if x >= -3 && x < 3 {
			return sinc(x) * sinc(x/3)
		}
	}
	return 0
}

// keys is the cubic of Keys (1981) with slope a at 1, for x >= 0.
func keys(x, a float64) float64 {
	switch {
	case x < 1:
		return float64((float64((a+2)*x)-(a+3))*x)*x + 1
	case x < 2:
		return (float64((float64((x-5)*x)+8)*x) - 4) * a
	}
	return 0
}

func sinc(x float64) float64 {
	if x == 0 {
		return 1
	}
	x *= math.Pi
	return portable.Sin(x) / x
}

// taps says of which input pixels an output pixel is made: from first on, by weight.
type taps struct {
	first   int
	weights []float64
}

// tapsOf are the taps of n output pixels over the span from a to b of size input pixels.
// size, n > 0 and 0 <= a < b <= size.
func (f Filter) tapsOf(size int, a, b float32, n int) []taps {
	scale := float64(b-a) / float64(n)
	wide := max(scale, 1)
	support := f.support() * wide
	all := make([]taps, n)
	for i := range all {
		centre := float64(a) + float64((float64(i)+0.5)*scale)
		from := max(int(centre-support+0.5), 0)
		to := min(int(centre+support+0.5), size)
		w := make([]float64, max(to-from, 0))
		sum := 0.0
		for j := range w {
			w[j] = f.at((float64(j+from) - centre + 0.5) * (1 / wide))
			sum += w[j]
		}
		if sum != 0 {
			for j := range w {
				w[j] /= sum
			}
		}
		all[i] = taps{from, w}
	}
	return all
}
