package vlm

import (
	"fmt"
	"math"
)

// Card: the size that a picture is resized to. Both sides become multiples of factor (a patch's
// side times merge), the area comes between two bounds, the shape stays about the same:
//
//	side  = round(side/factor) factor                      half to even
//	above = floor(side / sqrt(area/max) / factor) factor   where the area is above max
//	below = ceil(side sqrt(min/area) / factor) factor      where it is below min
//
// Source: smart_resize of transformers and of qwen-vl-utils, which differ for thin pictures:
// the former holds a side that shrinks at factor or more, and lets one that is rounded become 0
// (which is below min, and grows again where min is above 0); the latter the reverse, and may
// return 0. Weights saw the former. Held to vlm.smart_resize and vlm.pixel_budget.

// A SizeRule is one of the two published versions.
type SizeRule int

const (
	Transformers SizeRule = iota
	QwenUtils
)

// Pixels bounds a picture's area.
type Pixels struct{ Min, Max int }

// thinnest is the largest ratio of a picture's sides.
const thinnest = 200

// TooThin is the error of a picture whose sides differ too much.
type TooThin struct {
	Width, Height int
	Ratio         float64
}

func (e TooThin) Error() string {
	return fmt.Sprintf("a picture of %d x %d pixels is too thin: one side is %g times the other, at most %d is possible: crop it", e.Width, e.Height, e.Ratio, thinnest)
}

// Size is the size that a picture of width x height is resized to.
func (rule SizeRule) Size(width, height, factor int, p Pixels) (w, h int, err error) {
	if err := sane(width, height); err != nil {
		return 0, 0, err
	}
	if factor < 1 || factor > 1<<16 || p.Max < 1 || p.Max > 1<<40 || p.Min < 0 || p.Min > 1<<40 || rule == QwenUtils && p.Max < p.Min {
		return 0, 0, fmt.Errorf("pictures of %d to %d pixels in multiples of %d: there are none", p.Min, p.Max, factor)
	}
	if ratio := float64(max(width, height)) / float64(min(width, height)); ratio > thinnest {
		return 0, 0, TooThin{width, height, ratio}
	}
	atLeast, least := 0, factor
	if rule == QwenUtils {
		atLeast, least = factor, 0
	}
	side := func(n int) int {
		return max(atLeast, int(math.RoundToEven(float64(n)/float64(factor)))*factor)
	}
	w, h = side(width), side(height)
	area := float64(width) * float64(height)
	switch {
	case w*h > p.Max:
		by := math.Sqrt(area / float64(p.Max))
		shrink := func(n int) int {
			return max(least, int(math.Floor(float64(n)/by/float64(factor)))*factor)
		}
		w, h = shrink(width), shrink(height)
	case w*h < p.Min:
		by := math.Sqrt(float64(p.Min) / area)
		grow := func(n int) int { return int(math.Ceil(float64(n)*by/float64(factor))) * factor }
		w, h = grow(width), grow(height)
	}
	return w, h, nil
}

// Budget is the size that training projects (EasyR1, Mini-o3, VRAG) cut a picture to before
// the processor sees it: into the largest area, then into the smallest, sides cut to whole
// numbers. A side that becomes 0 is an error.
func (p Pixels) Budget(width, height int) (w, h int, err error) {
	if err := sane(width, height); err != nil {
		return 0, 0, err
	}
	if p.Min < 0 || p.Max < 0 || max(p.Min, p.Max) > 1<<40 {
		return 0, 0, fmt.Errorf("pictures of %d to %d pixels: there are none", p.Min, p.Max)
	}
	w, h = width, height
	scale := func(area int) {
		by := math.Sqrt(float64(area) / float64(w*h))
		w, h = int(float64(w)*by), int(float64(h)*by)
	}
	if w*h > p.Max {
		scale(p.Max)
	}
	if w > 0 && h > 0 && w*h < p.Min {
		scale(p.Min)
	}
	if w < 1 || h < 1 {
		return 0, 0, fmt.Errorf("a picture of %d x %d pixels becomes %d x %d within %d to %d pixels", width, height, w, h, p.Min, p.Max)
	}
	return w, h, nil
}

// sane refuses sides that no picture has: products of two stay exact.
func sane(width, height int) error {
	if width < 1 || height < 1 || width > 1<<24 || height > 1<<24 {
		return fmt.Errorf("a picture of %d x %d pixels: there is none", width, height)
	}
	return nil
}
