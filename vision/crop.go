package vision

import (
	"fmt"
	"math"
)

// Crop is width x height pixels from (x, y) on; what lies outside the picture is black.
func (m *Image) Crop(x, y, width, height int) (*Image, error) {
	if err := checkSize(width, height); err != nil {
		return nil, fmt.Errorf("cropping: %w", err)
	}
	out := New(width, height)
	if abs(x) <= maxSide && abs(y) <= maxSide {
		out.Paste(m, -x, -y)
	}
	return out, nil
}

func abs(x int) int { return max(x, -x) }

// CropBox crops between fractions of pixels: each corner is rounded half to even, as
// Pillow's Image.crop does.
func (m *Image) CropBox(x0, y0, x1, y1 float64) (*Image, error) {
	var c [4]int
	for i, v := range [...]float64{x0, y0, x1, y1} {
		if !(math.Abs(v) <= maxSide) {
			return nil, fmt.Errorf("cropping (%v, %v, %v, %v): no picture is that large", x0, y0, x1, y1)
		}
		c[i] = int(math.RoundToEven(v))
	}
	return m.Crop(c[0], c[1], c[2]-c[0], c[3]-c[1])
}

// CentreCrop is the middle of a picture, padded with black where it is smaller.
func (m *Image) CentreCrop(width, height int, c Centring) (*Image, error) {
	return m.Crop(c.Offset(m.Width, width), c.Offset(m.Height, height), width, height)
}
