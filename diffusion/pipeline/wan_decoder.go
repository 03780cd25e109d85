package pipeline

import (
	"fmt"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	clips "github.com/darkroom-rl/darkroom/video/vae"
)

// openClipDecoder reads the settings of an AutoencoderKLWan. It computes in fp32 whatever is asked for, as
// upstream's examples have it: its latents' means and deviations are small beside its activations.
func openClipDecoder(dir string, channels int) (*decoder, error) {
	c, err := clips.ReadConfig(dir)
	if err != nil {
		return nil, named(dir, err)
	}
	if c.Latent != channels || c.Channels() != 3 {
		return nil, fmt.Errorf("%s: latents of %d channels become frames of %d; the denoiser's have %d channels, and frames 3", filepath.Join(dir, "config.json"), c.Latent, c.Channels(), channels)
	}
	d := &decoder{factor: c.Factor(), frames: c.Frames(), forced: true}
	if c.Patch == 1 {
		d.tile = clipTile
	}
	d.build = func(p *nn.Params) (decode, encode through) {
		m := clips.New(p, c)
		return m.Decode, func(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
			mean, _ := m.Encode(tp, x)
			return m.Scaled(tp, mean)
		}
	}
	return d, nil
}

// clipTile is upstream's.
const clipTile = 256

// openFrameDecoder reads the settings of an AutoencoderKLQwenImage: a picture is a clip of one frame.
func openFrameDecoder(dir string, channels int) (*decoder, error) {
	d, err := openClipDecoder(dir, channels)
	if err != nil {
		return nil, err
	}
	d.frames, d.alone = 0, true
	return d, nil
}
