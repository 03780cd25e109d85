package pipeline

import (
	"fmt"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/diffusion"
	"github.com/darkroom-rl/darkroom/diffusion/vae"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// decoder is the pipeline's autoencoder.
type decoder struct {
	factor  int  // pixels a side of a latent pixel covers
	forced  bool // computes in fp32 whatever is asked for
	build   func(p *nn.Params) func(tp *autograd.Tape, latents *autograd.Value) *autograd.Value
	names   func(nn.Source) nn.Source
	network *network
	run     func(tp *autograd.Tape, latents *autograd.Value) *autograd.Value
}

func openDecoder(f *folder, channels int) (*decoder, error) {
	dir, err := f.part("vae")
	if err != nil {
		return nil, err
	}
	d := &decoder{}
	latent, out := 0, 0
	if f.parts["vae"] == "AutoencoderTiny" {
		c, err := vae.ReadTinyConfig(dir)
		if err != nil {
			return nil, named(dir, err)
		}
		d.factor, latent, out = 1, c.Latent, c.Out
		for range len(c.DecoderChannels) - 1 {
			d.factor *= c.Upsampling
		}
		d.build = func(p *nn.Params) func(*autograd.Tape, *autograd.Value) *autograd.Value {
			return vae.NewTiny(p, c).Decode
		}
	} else {
		c, err := vae.ReadConfig(dir)
		if err != nil {
			return nil, named(dir, err)
		}
		var said struct {
			Upcast *bool `json:"force_upcast"`
		}
		if err := hub.JSON(filepath.Join(dir, "config.json"), &said); err != nil {
			return nil, err
		}
		latent, out = c.Latent, c.Out
		d = klDecoder(c)
		d.forced = said.Upcast == nil || *said.Upcast
	}
	if latent != channels || out != 3 {
		return nil, fmt.Errorf("%s: latents of %d channels become pictures of %d; the denoiser's have %d channels, and pictures 3", filepath.Join(dir, "config.json"), latent, out, channels)
	}
	return d, nil
}

func klDecoder(c vae.Config) *decoder {
	return &decoder{factor: c.Factor(), names: vae.Names, build: func(p *nn.Params) func(*autograd.Tape, *autograd.Value) *autograd.Value { return vae.New(p, c).Decode }}
}

// Decode is a sample's picture as the autoencoder puts it out: [H, W, 3], about -1 to 1.
func (p *Pipeline) Decode(latents []float64, at Shape) ([]float32, error) {
	all, err := p.DecodeAll([][]float64{latents}, at)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// DecodeAll is the pictures of samples of one shape.
func (p *Pipeline) DecodeAll(latents [][]float64, at Shape) ([][]float32, error) {
	d, precision := p.decoder, p.Precision
	if d.forced {
		precision = F32
	}
	if d.network == nil {
		n, err := p.load("vae", precision, nil, d.names, func(params *nn.Params) { d.run = d.build(params) })
		if err != nil {
			return nil, err
		}
		d.network = n
	}
	tp := p.tape(precision)
	defer tp.Reset()
	var out [][]float32
	each := max(1, (1<<18)/(at.Height*at.Width))
	for len(latents) > 0 {
		n := min(each, len(latents))
		var x []float32
		for _, l := range latents[:n] {
			if len(l) != at.Len() {
				return nil, fmt.Errorf("latents of %d numbers; a picture of %d x %d has %d", len(l), at.Width, at.Height, at.Len())
			}
			x = append(x, p.Grid(l, at)...)
		}
		y := d.run(tp, tp.Upload("latents", x, n, at.Rows, at.Cols, p.family.latentChannels)).F32()
		for size := len(y) / n; len(y) > 0; y = y[size:] {
			if !finite(y[:size]) {
				return nil, fmt.Errorf("%s: picture %d holds numbers that are infinite or none (try f32)", d.network.name(), len(out))
			}
			out = append(out, y[:size:size])
		}
		latents = latents[n:]
		tp.Reset()
	}
	return out, nil
}

// FreeDecoder lets the autoencoder's weights go.
func (p *Pipeline) FreeDecoder() error {
	err := p.decoder.network.close()
	p.decoder.network = nil
	return err
}

// Grid is a sample's latents as the autoencoder reads them, [Rows, Cols, C].
func (p *Pipeline) Grid(latents []float64, at Shape) []float32 {
	c := p.family.latentChannels
	if !p.family.packed {
		return narrowed(latents)
	}
	planes := narrowed(diffusion.Unpack(latents, c, at.Rows, at.Cols))
	grid := make([]float32, len(planes))
	for i, v := range planes {
		channel, pixel := i/(at.Rows*at.Cols), i%(at.Rows*at.Cols)
		grid[pixel*c+channel] = v
	}
	return grid
}

// Pixels takes what Decode gives to numbers from 0 to 1.
func Pixels(raw []float32) []float32 {
	out := make([]float32, len(raw))
	for i, v := range raw {
		if v = v/2 + 0.5; v > 0 { // a number that is none becomes 0
			out[i] = min(v, 1)
		}
	}
	return out
}

// narrowed is numbers in fp32.
func narrowed(x []float64) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

// widened is numbers in float64.
func widened(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}
