package vision

import "fmt"

// Card: Pillow's resizing, bit for bit. Two passes over 8-bit pixels, each rounded to 8 bits:
//
//	out = clamp((2^21 + Σ in * round(2^22 weight)) >> 22)
//
// with the weights of filter.go, horizontally and then vertically; a direction that keeps its
// size is left out. Nearest takes pixel floor(p), where p starts at half a step and grows by
// a step in float64 (a running sum: (i + 1/2) step differs at ties). Alpha: colours are
// multiplied by it before the passes and divided after, but not for Nearest. Pillow 13 goes
// vertically first where height falls by more than twice what width does, which moves some
// results by a few levels; published rewards were computed before. Source: Pillow's Resample.c,
// Geometry.c and Image.resize. Held to golden/rewards/image (Pillow 12) and
// golden/vlm/processor.json (Pillow 13), and to the naive formula in resize_test.go.

// A Resizing says how pictures are resized. The zero value takes the nearest pixels.
type Resizing struct {
	Filter Filter
	From   *Span // the part of the picture that is resized; nil: all of it
	Order  Order
}

// A Span is a rectangle with corners between pixels: (0, 0, width, height) is everything.
type Span struct{ X0, Y0, X1, Y1 float32 }

// An Order says which direction is resized first.
type Order int

const (
	HorizontalFirst Order = iota // Pillow before 13, torch
	Pillow13                     // vertically first where that is less work
)

// vertical reports whether the vertical pass is the first one.
func (o Order) vertical(fromWidth, fromHeight, width, height int) bool {
	return o == Pillow13 && height < fromHeight && fromHeight-height > 2*(fromWidth-width)
}

// Resize is m at another size, as Pillow 13 does it, for pipelines, models and rewards alike. What was recorded with
// Pillow 12 names HorizontalFirst.
func (m *Image) Resize(width, height int, f Filter) (*Image, error) {
	r, err := Resizing{Filter: f, Order: Pillow13}.Apply(m.Raster(), width, height)
	if err != nil {
		return nil, err
	}
	return r.RGB(), nil
}

// Apply resizes a picture. The result shares no memory with it.
func (z Resizing) Apply(r *Raster, width, height int) (*Raster, error) {
	if err := checkSize(width, height); err != nil {
		return nil, fmt.Errorf("resizing: %w", err)
	}
	if z.Filter < Nearest || z.Filter > Lanczos {
		return nil, fmt.Errorf("resizing with %v: no filter has that number", z.Filter)
	}
	s := Span{0, 0, float32(r.Width), float32(r.Height)}
	if z.From != nil {
		s = *z.From
	}
	if !(s.X0 >= 0 && s.Y0 >= 0 && s.X0 < s.X1 && s.Y0 < s.Y1 && s.X1 <= float32(r.Width) && s.Y1 <= float32(r.Height)) {
		return nil, fmt.Errorf("resizing %v of a picture of %d x %d: it must lie inside, and hold something", s, r.Width, r.Height)
	}
	switch {
	case s.is(width, height):
		return r.cut(int(s.X0), int(s.Y0), width, height), nil
	case z.Filter == Nearest:
		return r.nearest(s, width, height), nil
	case r.Channels == 4:
		out := z.passes(r.premultiplied(), s, width, height)
		out.divideAlpha()
		return out, nil
	}
	return z.passes(r, s, width, height), nil
}

// is reports whether a span holds just width x height whole pixels.
func (s Span) is(width, height int) bool {
	return s.X0 == float32(int(s.X0)) && s.Y0 == float32(int(s.Y0)) && s.X1-s.X0 == float32(width) && s.Y1-s.Y0 == float32(height)
}

func (r *Raster) cut(x, y, width, height int) *Raster {
	out := NewRaster(width, height, r.Channels)
	for i := range height {
		copy(out.Row(i), r.Row(y + i)[x*r.Channels:])
	}
	return out
}

func (r *Raster) nearest(s Span, width, height int) *Raster {
	xs := nearestPlaces(s.X0, s.X1, width)
	out := NewRaster(width, height, r.Channels)
	for y, sy := range nearestPlaces(s.Y0, s.Y1, height) {
		if sy >= r.Height {
			continue
		}
		from, to := r.Row(sy), out.Row(y)
		for x, sx := range xs {
			if sx < r.Width {
				copy(to[x*r.Channels:(x+1)*r.Channels], from[sx*r.Channels:])
			}
		}
	}
	return out
}

// nearestPlaces are the pixels that Nearest takes.
func nearestPlaces(a, b float32, n int) []int {
	step := float64(b-a) / float64(n)
	at := float64(a) + float64(step*0.5)
	places := make([]int, n)
	for i := range places {
		places[i] = int(at)
		at += step
	}
	return places
}

// passes resizes what has no alpha, or is multiplied by it.
func (z Resizing) passes(r *Raster, s Span, width, height int) *Raster {
	across := width != r.Width || s.X0 != 0 || s.X1 != float32(width)
	down := height != r.Height || s.Y0 != 0 || s.Y1 != float32(height)
	horizontal := func(r *Raster, first, last int) *Raster {
		return r.across(wholeTaps(z.Filter.tapsOf(r.Width, s.X0, s.X1, width), pillowBits), pillowBits, first, last)
	}
	if !down {
		return horizontal(r, 0, r.Height)
	}
	rows := wholeTaps(z.Filter.tapsOf(r.Height, s.Y0, s.Y1, height), pillowBits)
	if !across {
		return r.down(rows, pillowBits)
	}
	if z.Order.vertical(r.Width, r.Height, width, height) {
		return horizontal(r.down(rows, pillowBits), 0, height)
	}
	// Only rows that the vertical pass will read.
	first, last := rows[0].first, rows[height-1].first+len(rows[height-1].weights)
	return horizontal(r, first, last).down(shifted(rows, first), pillowBits)
}

// premultiplied multiplies colours by alpha, as Pillow's RGBa.
func (r *Raster) premultiplied() *Raster {
	out := NewRaster(r.Width, r.Height, 4)
	for i := 0; i < len(r.Pix); i += 4 {
		p, q, a := r.Pix[i:i+4], out.Pix[i:i+4], uint32(r.Pix[i+3])
		for c := range 3 {
			v := uint32(p[c])*a + 128
			q[c] = uint8((v>>8 + v) >> 8)
		}
		q[3] = p[3]
	}
	return out
}

// divideAlpha undoes premultiplied where it can.
func (r *Raster) divideAlpha() {
	for i := 0; i < len(r.Pix); i += 4 {
		p := r.Pix[i : i+4]
		if a := int(p[3]); a != 0 && a != 255 {
			for c := range 3 {
				p[c] = uint8(min(255*int(p[c])/a, 255))
			}
		}
	}
}
