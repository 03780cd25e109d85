package vision

import (
	"fmt"
	"math"
)

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

// checkSize refuses sizes of pictures that are none, or that no memory holds.
func checkSize(width, height int) error {
	if width <= 0 || height <= 0 || width > maxSide || height > maxSide || int64(width)*int64(height) > 1<<29 {
		return fmt.Errorf("a picture of %d x %d pixels: it would hold nothing, or too much", width, height)
	}
	return nil
}
