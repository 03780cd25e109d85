package vision

import "fmt"

// Card: torchvision's resizing of 8-bit pictures (anti-aliased bilinear and bicubic), which
// current image processors use. As Pillow's, but weights have 16 bits: with so many binary
// places that the largest weight of the pass stays below 2^15. Results are off Pillow's by
// one level here and there. Source: ATen's UpSampleKernel.cpp, the uint8 path. Held to
// vlm.resize_torchvision and image.preprocess (clip_torchvision).

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
