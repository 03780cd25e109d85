package rewards

import (
	"context"

	"github.com/darkroom-rl/darkroom/config"
	"github.com/darkroom-rl/darkroom/vision"
	"github.com/darkroom-rl/darkroom/vision/jpeg"
)

// Card: how large a picture is as a JPEG file of quality 95, in kB of 1000 bytes: the simplest
// reward there is, and a good test of a trainer. Published forms are multiples of it, with
// the file that Pillow writes, which package jpeg repeats byte for byte.

// JPEGOptions say which of the published multiples of a file's kB the reward is.
type JPEGOptions struct {
	Form string `toml:"form" enum:"incompressibility,compressibility,flow_grpo" doc:"the file's kB: large is good, small is good (DDPO), small is good and kB over 500 (flow_grpo)"`
}

// SetDefaults wants large files.
func (o *JPEGOptions) SetDefaults() { *o = JPEGOptions{Form: "incompressibility"} }

// Factor is the form's multiple.
func (o JPEGOptions) Factor() float64 {
	switch o.Form {
	case "compressibility":
		return -1
	case "flow_grpo":
		return -1.0 / 500
	}
	return 1
}

// JPEGKilobytes is the size of a picture as a file.
func JPEGKilobytes(m *vision.Image) (float64, error) {
	file, err := jpeg.Encode(m.Pix, m.Width, m.Height, 95)
	return float64(len(file)) / 1000, err
}

// JPEG is that size times a factor, of a clip the mean over its frames.
type JPEG struct{ Factor float64 }

// Score judges a picture or a clip.
func (j JPEG) Score(_ context.Context, item Item) (Score, error) {
	frames, err := item.Frames(1)
	if err != nil {
		return Score{}, err
	}
	kB := 0.0
	for _, m := range frames {
		size, err := JPEGKilobytes(m)
		if err != nil {
			return Score{}, err
		}
		kB += size / float64(len(frames))
	}
	return Score{Value: j.Factor * kB, Parts: map[string]float64{"kilobytes": kB}}, nil
}

// JPEGKey is the table of JPEGOptions.
type JPEGKey struct {
	JPEG *JPEGOptions `toml:"jpeg" doc:"of reward jpeg: whether large or small files are good"`
}

type jpegKeys struct {
	FrameKeys
	JPEGKey
}

// JPEGKind is reward jpeg.
var JPEGKind = Kind{
	Name:    "jpeg",
	Card:    "Size as a JPEG: the simplest reward there is (DDPO).",
	Paper:   "DDPO (Black et al., 2023)",
	Cases:   []string{"image.jpeg_size"},
	Parts:   []string{"kilobytes"},
	Judges:  Pictures,
	Options: jpegKeys{},
	Open: Opens(func(k jpegKeys, _ Bench) (Opened, error) {
		return One(JPEG{Factor: config.Filled(k.JPEG).Factor()}), nil
	}),
}
