package vision

import (
	"fmt"
	"math"
)

// Card: bytes and numbers.
//
//	Unit     x = b/255           b = clamp(round(255 x), 0, 255)
//	Signed   x = 2 (b/255) - 1   b = round(255 clamp(x/2 + 1/2, 0, 1))
//
// in fp32, round half to even, as diffusers' VaeImageProcessor and the tensor branches of published rewards do
// (golden/rewards/image.json). NaN becomes 0: a byte has no NaN, and its cause is found where numbers are still
// numbers. The invariant: bytes that went to numbers come back as they were.

// A Range is the values of the darkest and the brightest byte.
type Range int

const (
	Unit   Range = iota // 0..1
	Signed              // -1..1
)

// A Layout is the order of a picture's numbers.
type Layout int

const (
	ChannelsLast  Layout = iota // [H, W, 3]
	ChannelsFirst               // [3, H, W]
)

// FromByte is a byte as a number.
func (r Range) FromByte(b uint8) float32 {
	x := float32(b) / 255
	if r == Signed {
		x = 2*x - 1
	}
	return x
}

// ToByte is the nearest byte.
func (r Range) ToByte(x float32) uint8 {
	if r == Signed {
		x = min(max(x/2+0.5, 0), 1)
	}
	x = float32(math.RoundToEven(float64(float32(x * 255))))
	if !(x > 0) {
		return 0
	}
	return uint8(min(x, 255))
}

// Floats appends a picture's numbers to dst; a batch is several calls.
func Floats(dst []float32, m *Image, r Range, l Layout) []float32 {
	var table [256]float32
	for b := range table {
		table[b] = r.FromByte(uint8(b))
	}
	if l == ChannelsLast {
		for _, b := range m.Pix {
			dst = append(dst, table[b])
		}
		return dst
	}
	for c := range 3 {
		for i := c; i < len(m.Pix); i += 3 {
			dst = append(dst, table[m.Pix[i]])
		}
	}
	return dst
}

// FromFloats makes a picture of 3 width height numbers.
func FromFloats(x []float32, width, height int, r Range, l Layout) (*Image, error) {
	if err := checkSize(width, height); err != nil {
		return nil, err
	}
	if len(x) != 3*width*height {
		return nil, fmt.Errorf("%d numbers do not make a picture of %d x %d with three channels", len(x), width, height)
	}
	m := New(width, height)
	if l == ChannelsLast {
		for i, v := range x {
			m.Pix[i] = r.ToByte(v)
		}
		return m, nil
	}
	n := width * height
	for i, v := range x {
		m.Pix[i%n*3+i/n] = r.ToByte(v)
	}
	return m, nil
}
