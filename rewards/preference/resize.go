package preference

import (
	"math"

	"github.com/darkroom-rl/darkroom/vision"
)

// Frame is a frame at VideoReward's size, as torchvision's functional resize makes it of bytes: in real
// numbers, bicubic with antialiasing, then cut to bytes and rounded half to even. (Its newer interface resizes
// bytes as bytes, which is up to one level off.)
func Frame(m *vision.Image, width, height int) (*vision.Image, error) {
	if m.Width == width && m.Height == height {
		return m, nil
	}
	z, err := vision.NewRealResize(m.Width, m.Height, width, height, vision.Bicubic, true)
	if err != nil {
		return nil, err
	}
	x := make([]float64, len(m.Pix))
	for i, b := range m.Pix {
		x[i] = float64(b)
	}
	out := vision.New(width, height)
	for i, v := range z.Forward(x, 3) {
		out.Pix[i] = uint8(math.RoundToEven(min(max(v, 0), 255)))
	}
	return out, nil
}
