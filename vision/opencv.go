package vision

import (
	"fmt"
	"math"
)

// Card: OpenCV's resizing of 8-bit pictures, INTER_LINEAR, bit for bit: no anti-aliasing. Pixel i of n, made of size,
// lies at
//
//	s = fp32((i + 1/2) size/n - 1/2), between floor(s) and the next, f = s - floor(s)
//
// Columns outside the first and the last pixel are those pixels; rows are clamped, with their f. Weights are
// round(2048 (1 - f)) and round(2048 f), half to even; of a row's sums H = p0 a0 + p1 a1 a pixel is
//
//	((b0 (H0 >> 4)) >> 16) + ((b1 (H1 >> 4)) >> 16) + 2) >> 2
//
// Source: OpenCV's resize.cpp. Held to eyes.cv_resize.

// ResizeOpenCV is m at another size, as OpenCV's resize does it.
func (m *Image) ResizeOpenCV(width, height int) (*Image, error) {
	if err := checkSize(width, height); err != nil {
		return nil, fmt.Errorf("resizing: %w", err)
	}
	if width == m.Width && height == m.Height {
		return m.Clone(), nil
	}
	columns, rows := opencvTaps(m.Width, width, true), opencvTaps(m.Height, height, false)
	across := make([]int32, m.Height*width*3)
	for y := range m.Height {
		from, to := m.Row(y), across[y*width*3:]
		for x, t := range columns {
			for c := range 3 {
				to[3*x+c] = int32(from[3*t.first+c])*t.weights[0] + int32(from[3*t.second+c])*t.weights[1]
			}
		}
	}
	out := New(width, height)
	for y, t := range rows {
		above, below, to := across[t.first*width*3:], across[t.second*width*3:], out.Row(y)
		for i := range to {
			to[i] = uint8((t.weights[0]*(above[i]>>4)>>16 + t.weights[1]*(below[i]>>4)>>16 + 2) >> 2)
		}
	}
	return out, nil
}

// opencvTap is the two pixels of one of a result, and their weights of 11 bits.
type opencvTap struct {
	first, second int
	weights       [2]int32
}

func opencvTaps(size, n int, column bool) []opencvTap {
	all := make([]opencvTap, n)
	scale := float64(size) / float64(n)
	for i := range all {
		s := float32(float64((float64(i)+0.5)*scale) - 0.5)
		at := int(math.Floor(float64(s)))
		f := s - float32(at)
		if column && (at < 0 || at >= size-1) {
			at, f = min(max(at, 0), size-1), 0
		}
		weight := func(f float32) int32 { return int32(math.RoundToEven(float64(float32(2048 * f)))) }
		all[i] = opencvTap{min(max(at, 0), size-1), min(max(at+1, 0), size-1), [2]int32{weight(1 - f), weight(f)}}
	}
	return all
}
