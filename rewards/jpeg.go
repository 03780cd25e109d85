package rewards

import (
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/jpeg"
)

// Card: how large a picture is as a JPEG file of quality 95, in kB of 1000 bytes: the simplest
// reward there is, and a good test of a trainer. Published forms are multiples of it, with
// the file that Pillow writes, which package jpeg repeats byte for byte.

// Published multiples of a file's kB.
const (
	DDPOIncompressibility   = 1.0
	DDPOCompressibility     = -1.0
	FlowGRPOCompressibility = -1.0 / 500
)

// JPEGKilobytes is the size of a picture as a file.
func JPEGKilobytes(m *vision.Image) (float64, error) {
	file, err := jpeg.Encode(m.Pix, m.Width, m.Height, 95)
	return float64(len(file)) / 1000, err
}
