package moving

import "math"

// Card: how well a frame shows the thing of a caption, wherever it is in the frame. Each pixel belongs to the ink that
// is nearest to its colour.
//
//	shape   of the pixels of the thing's ink and of the shape asked for, drawn around their middle with their area:
//	        what both share over what either covers
//	ground  of the other pixels but a rim around that shape: the share of the background's ink
//	value   shape·ground, times how plausible the area is: 1 between the least and the largest that are drawn,
//	        and less in proportion beyond
//
// Invariants (tests): a drawn frame is worth 0.89 or more, another colour or background nothing, another shape less.

// A Look is how well a frame shows its thing.
type Look struct{ Value, Shape, Ground float64 }

// least and largest are half a side of what is drawn (Jitter).
const least, largest = 5.0, 6.0

// Look compares a frame, Size x Size pixels of RGB, with the caption.
func (s Scene) Look(px []uint8) Look {
	var belongs [Size * Size]string
	var n, x, y float64
	for i := range belongs {
		if belongs[i] = nearest(px[3*i:]); belongs[i] == s.Color {
			n, x, y = n+1, x+float64(i%Size)+0.5, y+float64(i/Size)+0.5
		}
	}
	if n == 0 {
		return Look{Ground: s.share(belongs[:], func(int) bool { return true })}
	}
	x, y = x/n, y/n
	half := math.Sqrt(n) / 2
	if s.Shape == "circle" {
		half = math.Sqrt(n / math.Pi)
	}
	var both, either float64
	for i, ink := range belongs {
		in, is := s.covers(float64(i%Size)+0.5-x, float64(i/Size)+0.5-y, half), ink == s.Color
		if in && is {
			both++
		}
		if in || is {
			either++
		}
	}
	ground := s.share(belongs[:], func(i int) bool {
		return !s.covers(float64(i%Size)+0.5-x, float64(i/Size)+0.5-y, half+1.5)
	})
	l := Look{Shape: both / either, Ground: ground}
	l.Value = l.Shape * l.Ground * min(1, half/least) * min(1, largest/half)
	return l
}

// covers reports whether the thing covers a point, from its middle.
func (s Scene) covers(dx, dy, half float64) bool {
	if s.Shape == "circle" {
		return float64(dx*dx)+float64(dy*dy) <= half*half
	}
	return math.Max(math.Abs(dx), math.Abs(dy)) <= half
}

// share of some pixels that belong to the background.
func (s Scene) share(belongs []string, some func(i int) bool) float64 {
	of, n := 0.0, 0.0
	for i, ink := range belongs {
		if !some(i) {
			continue
		}
		if n++; ink == s.Background {
			of++
		}
	}
	return of / max(1, n)
}

// nearest is the ink whose colour is nearest to a pixel's.
func nearest(px []uint8) (name string) {
	best := math.MaxInt
	for _, ink := range palette {
		d := 0
		for c := range 3 {
			e := int(px[c]) - int(inks[ink][c])
			d += e * e
		}
		if d < best {
			name, best = ink, d
		}
	}
	return name
}

// palette are all inks, in the order in which ties are broken.
var palette = append(append([]string{}, Colors...), Backgrounds...)
