package vlm

import (
	"fmt"
	"math"
)

// Card: the size of a clip's frames. Sides are multiples of factor, and the area lies between two bounds, as a
// picture's (sizes.go):
//
//	qwen2_vl   of one frame
//	qwen3_vl   of the whole clip, frames rounded half to even to a multiple of 2, times both sides; a side below
//	           factor is scaled up first
//	vendor     qwen-vl-utils, for frames that come as pictures: by a slip they pass the picture's rule with twice
//	           the factor before the clip's, so that they are resized twice
//
// Cap is a bound a frame by the tokens of a clip, which transformers has announced and has off. Held to
// video.size.

// ClipPixels bounds the area of a clip's frames.
type ClipPixels struct {
	Rule FrameRule
	Pixels
	Cap    bool
	Tokens int // of a clip, where Cap is on
}

// Size is the size that frames of width x height become, in a clip of some.
func (p ClipPixels) Size(frames, width, height, factor int) (w, h int, err error) {
	if err := sane(width, height); err != nil {
		return 0, 0, err
	}
	if frames < 1 || frames > 1<<20 || factor < 1 || factor > 1<<16 || p.Min < 0 || p.Max < 1 || max(p.Min, p.Max) > 1<<40 || p.Tokens < 0 || p.Tokens > 1<<40 {
		return 0, 0, fmt.Errorf("%d frames of %d to %d pixels in multiples of %d: no clip has them", frames, p.Min, p.Max, factor)
	}
	least, cell := int(float64(p.Min)*1.05), factor*factor
	b := clipBounds{factor: factor, least: p.Min, most: p.Max, weight: 1, wholeWeight: 1}
	if p.Rule == Qwen2Frames {
		if p.Cap {
			b.most = max(min(p.Max, int(float64(p.Tokens*cell)*0.9)*2/frames), least)
		}
	} else {
		b.weight, b.wholeWeight = frames, int(math.RoundToEven(float64(frames)/2))*2
		if p.Cap {
			b.most = max(min(p.Tokens*cell, p.Max/frames), least) * frames
		}
		width, height = scaledUp(width, height, factor)
	}
	w, h = b.size(width, height)
	return w, h, nil
}

// scaledUp makes sides at least factor.
func scaledUp(width, height, factor int) (w, h int) {
	if min(width, height) >= factor {
		return width, height
	}
	by := max(float64(factor)/float64(height), float64(factor)/float64(width))
	return int(float64(width) * by), int(float64(height) * by)
}

// VendorSize is qwen-vl-utils' for frames that come as pictures: least cells a picture and a frame, and most
// pixels. An odd number of frames has one more.
func VendorSize(frames, width, height, factor, pictureCells, frameCells, most int) (w, h, of int, err error) {
	if err := sane(width, height); err != nil {
		return 0, 0, 0, err
	}
	if frames < 1 || frames > 1<<20 || factor < 1 || factor > 1<<15 || most < 1 || most > 1<<40 {
		return 0, 0, 0, fmt.Errorf("%d frames of at most %d pixels in multiples of %d: no clip has them", frames, most, factor)
	}
	picture := clipBounds{factor: 2 * factor, least: pictureCells * 4 * factor * factor, most: most, weight: 1, wholeWeight: 1, atLeast: 2 * factor}
	w, h = picture.size(width, height)
	of = frames + frames%2
	least, cell := frameCells*factor*factor, float64(factor*factor)
	bound := math.Max(math.Min(768*cell, 128000*cell*0.9/float64(of)*2), float64(int(float64(least)*1.05)))
	frame := clipBounds{factor: factor, least: least, most: int(math.Min(float64(most), bound)), weight: 1, wholeWeight: 1, atLeast: factor}
	w, h = frame.size(w, h)
	return w, h, of, nil
}

// MostFirst is qwen-vl-utils' size of a frame or picture where the least area may lie above the most: the test
// against the most comes first (VideoAlign, HPSv3).
func (p Pixels) MostFirst(width, height, factor int) (w, h int, err error) {
	if err := sane(width, height); err != nil {
		return 0, 0, err
	}
	if factor < 1 || factor > 1<<16 || p.Min < 0 || p.Max < 1 || max(p.Min, p.Max) > 1<<40 {
		return 0, 0, fmt.Errorf("%d to %d pixels in multiples of %d: there are none", p.Min, p.Max, factor)
	}
	w, h = clipBounds{factor: factor, least: p.Min, most: p.Max, weight: 1, wholeWeight: 1, atLeast: factor}.size(width, height)
	return w, h, nil
}

// clipBounds is one application of the rule.
type clipBounds struct {
	factor, least, most int
	weight, wholeWeight int // frames that the area counts, and counts once sides are whole
	atLeast             int // of sides that are rounded
}

func (b clipBounds) size(width, height int) (w, h int) {
	f := float64(b.factor)
	side := func(n int) int { return max(b.atLeast, int(math.RoundToEven(float64(n)/f))*b.factor) }
	w, h = side(width), side(height)
	area := float64(b.weight) * float64(height) * float64(width)
	switch {
	case b.wholeWeight*w*h > b.most:
		by := math.Sqrt(area / float64(b.most))
		shrink := func(n int) int { return max(b.factor, int(math.Floor(float64(n)/by/f))*b.factor) }
		w, h = shrink(width), shrink(height)
	case b.wholeWeight*w*h < b.least:
		by := math.Sqrt(float64(b.least) / area)
		grow := func(n int) int { return int(math.Ceil(float64(n)*by/f)) * b.factor }
		w, h = grow(width), grow(height)
	}
	return w, h
}
