package vision

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// Card: Pillow's resizing, bit for bit. Two passes over 8-bit pixels, each rounded to 8 bits:
//
//	out = clamp((2^21 + Σ in * round(2^22 weight)) >> 22)
//
// with the weights of tapsOf, horizontally and then vertically; a direction that keeps its size is left out. Nearest
// takes pixel floor(p), where p starts at half a step and grows by a step in float64 (a running sum: (i + 1/2) step
// differs at ties). Alpha: colours are multiplied by it before the passes and divided after, but not for Nearest.
// Pillow 13 goes vertically first where height falls by more than twice as much as width, which moves some results by
// a few levels; published rewards were computed before. Source: Pillow's Resample.c, Geometry.c and Image.resize.
// Held to golden/rewards/image (Pillow 12) and golden/vlm/processor.json (Pillow 13), and to the naive formula in
// resize_test.go.

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

// Resize is m at another size, as Pillow 13 does it, for pipelines, models and rewards alike. Cases recorded with
// Pillow 12 name HorizontalFirst.
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

// passes resizes a raster without alpha, or with alpha multiplied in.
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

// Sizes and places, with the roundings that published pipelines differ in. Held to
// image.resize_size and image.center_crop_offset.

// ShortestEdge is the size whose shorter side is size: the other is cut to a whole number
// (torchvision and transformers agree).
func ShortestEdge(width, height, size int) (w, h int) {
	if width <= 0 || height <= 0 {
		return size, size
	}
	if width <= height {
		return size, max(int(float64(size)*float64(height)/float64(width)), 1)
	}
	return max(int(float64(size)*float64(width)/float64(height)), 1), size
}

// LongestEdge is the size whose longer side is size: both are rounded, half to even (HPSv2).
// A side is at least 1.
func LongestEdge(width, height, size int) (w, h int) {
	scale := float64(size) / float64(max(width, height, 1))
	side := func(n int) int { return max(int(math.RoundToEven(float64(n)*scale)), 1) }
	return side(width), side(height)
}

// A Centring is a rule for the corner of a crop that leaves an odd number of pixels over.
type Centring int

const (
	HalfToEven Centring = iota // torchvision, open_clip
	Downwards                  // transformers, on arrays
	TowardZero                 // transformers, on tensors
)

// Offset is where a crop of size begins in n pixels; negative where it is larger and must
// be padded.
func (c Centring) Offset(n, size int) int {
	d := n - size
	switch {
	case c == TowardZero || c == HalfToEven && d < 0: // a padded side gets the smaller half first
		return d / 2
	case c == HalfToEven:
		return int(math.RoundToEven(float64(d) / 2))
	}
	return d >> 1
}

// checkSize refuses invalid sizes of pictures, and those that do not fit memory.
func checkSize(width, height int) error {
	if width <= 0 || height <= 0 || width > maxSide || height > maxSide || int64(width)*int64(height) > 1<<29 {
		return fmt.Errorf("a picture of %d x %d pixels: it would hold nothing, or too much", width, height)
	}
	return nil
}

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

// The two passes of 8-bit resizing, in whole numbers.

// pillowBits are the binary places of Pillow's weights: 32 less 8 for a pixel and 2 for sums
// that overshoot.
const pillowBits = 22

// whole is taps in whole numbers.
type whole struct {
	first   int
	weights []int32
}

func wholeTaps(all []taps, bits int) []whole {
	out := make([]whole, len(all))
	for i, t := range all {
		w := make([]int32, len(t.weights))
		for j, v := range t.weights {
			w[j] = int32(math.Round(v * float64(int(1)<<bits))) // half away from zero
		}
		out[i] = whole{t.first, w}
	}
	return out
}

// shifted counts the same taps from another row.
func shifted(all []whole, by int) []whole {
	out := make([]whole, len(all))
	for i, t := range all {
		out[i] = whole{t.first - by, t.weights}
	}
	return out
}

func clamp8(v int32) uint8 {
	if uint32(v) > 255 {
		if v < 0 {
			return 0
		}
		return 255
	}
	return uint8(v)
}

// across resizes the rows from first to last horizontally.
func (r *Raster) across(columns []whole, bits, first, last int) *Raster {
	out := NewRaster(len(columns), last-first, r.Channels)
	for y := first; y < last; y++ {
		switch r.Channels {
		case 1:
			across1(out.Row(y-first), r.Row(y), columns, bits)
		case 3:
			across3(out.Row(y-first), r.Row(y), columns, bits)
		default:
			across4(out.Row(y-first), r.Row(y), columns, bits)
		}
	}
	return out
}

// One loop a number of channels: the sums stay in registers.

func across1(to, from []uint8, columns []whole, bits int) {
	for x, t := range columns {
		a := int32(1) << (bits - 1)
		p := from[t.first:]
		p = p[:len(t.weights)]
		for j, w := range t.weights {
			a += w * int32(p[j])
		}
		to[x] = clamp8(a >> bits)
	}
}

func across3(to, from []uint8, columns []whole, bits int) {
	for x, t := range columns {
		half := int32(1) << (bits - 1)
		a, b, c := half, half, half
		p := from[3*t.first:]
		for _, w := range t.weights {
			q := p[:3]
			a += w * int32(q[0])
			b += w * int32(q[1])
			c += w * int32(q[2])
			p = p[3:]
		}
		q := to[3*x : 3*x+3]
		q[0], q[1], q[2] = clamp8(a>>bits), clamp8(b>>bits), clamp8(c>>bits)
	}
}

func across4(to, from []uint8, columns []whole, bits int) {
	for x, t := range columns {
		half := int32(1) << (bits - 1)
		a, b, c, d := half, half, half, half
		p := from[4*t.first:]
		for _, w := range t.weights {
			q := p[:4]
			a += w * int32(q[0])
			b += w * int32(q[1])
			c += w * int32(q[2])
			d += w * int32(q[3])
			p = p[4:]
		}
		q := to[4*x : 4*x+4]
		q[0], q[1], q[2], q[3] = clamp8(a>>bits), clamp8(b>>bits), clamp8(c>>bits), clamp8(d>>bits)
	}
}

// down resizes vertically: a row of sums takes one input row after the other.
func (r *Raster) down(rows []whole, bits int) *Raster {
	out := NewRaster(r.Width, len(rows), r.Channels)
	sums := make([]int32, r.Width*r.Channels)
	for y, t := range rows {
		for i := range sums {
			sums[i] = 1 << (bits - 1)
		}
		for j, w := range t.weights {
			from := r.Row(t.first + j)[:len(sums)]
			for i := range sums {
				sums[i] += w * int32(from[i])
			}
		}
		to := out.Row(y)[:len(sums)]
		for i, v := range sums {
			to[i] = clamp8(v >> bits)
		}
	}
	return out
}

// Card: torchvision's resizing of 8-bit pictures (anti-aliased bilinear and bicubic), which current image processors
// use. As Pillow's, but weights have 16 bits: with the most binary places at which the largest weight of the pass
// stays below 2^15. Results are off Pillow's by one level here and there. Source: ATen's UpSampleKernel.cpp, the
// uint8 path. Held to vlm.resize_torchvision and image.preprocess (clip_torchvision).

// ResizeTorch is m at another size, as torchvision does it to 8-bit tensors.
func (m *Image) ResizeTorch(width, height int, f Filter) (*Image, error) {
	if f != Bilinear && f != Bicubic {
		return nil, fmt.Errorf("torchvision's resizing with %v: bilinear or bicubic is needed", f)
	}
	if err := checkSize(width, height); err != nil {
		return nil, fmt.Errorf("resizing: %w", err)
	}
	r := m.Raster()
	if width != m.Width {
		taps := f.tapsOf(m.Width, 0, float32(m.Width), width)
		bits := torchBits(taps)
		r = r.across(wholeTaps(taps, bits), bits, 0, r.Height)
	}
	if height != m.Height {
		taps := f.tapsOf(m.Height, 0, float32(m.Height), height)
		bits := torchBits(taps)
		r = r.down(wholeTaps(taps, bits), bits)
	}
	if width == m.Width && height == m.Height {
		return m.Clone(), nil
	}
	return r.RGB(), nil
}

// torchBits are the binary places of a pass.
func torchBits(all []taps) int {
	largest := 0.0
	for _, t := range all {
		for _, w := range t.weights {
			largest = max(largest, w)
		}
	}
	bits := 0
	for bits < pillowBits && int(0.5+largest*float64(int(2)<<bits)) < 1<<15 {
		bits++
	}
	return bits
}
