package pipeline

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/diffusion"
	"github.com/darkroom-rl/darkroom/diffusion/vae"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// decoder is the pipeline's autoencoder.
type decoder struct {
	tile    int  // pixels a side of upstream's tiles; 0: it has none
	factor  int  // pixels a side of a latent pixel covers
	frames  int  // that a frame of a clip's latents covers; 0: it is of pictures
	alone   bool // pictures go through one by one
	forced  bool // computes in fp32 unless Options.Decoder says otherwise
	build   func(p *nn.Params) (decode, encode through)
	names   func(nn.Source) nn.Source
	network *network
	run     through // latents to pictures
	encode  through // pictures to the middle of their latents
}

// through is a half of an autoencoder.
type through = func(tp *autograd.Tape, x *autograd.Value) *autograd.Value

func openDecoder(f *folder, channels int) (*decoder, error) {
	dir, err := f.part("vae")
	if err != nil {
		return nil, err
	}
	d := &decoder{}
	latent, out := 0, 0
	if f.parts["vae"] == "AutoencoderKLWan" {
		return openClipDecoder(dir, channels)
	}
	if f.parts["vae"] == "AutoencoderKLQwenImage" {
		return openFrameDecoder(dir, channels)
	}
	if f.parts["vae"] == "AutoencoderKLFlux2" {
		var c vae.Config
		if d, c, err = openKleinDecoder(dir); err != nil {
			return nil, err
		}
		latent, out = c.Latent, c.Out
	} else if f.parts["vae"] == "AutoencoderTiny" {
		c, err := vae.ReadTinyConfig(dir)
		if err != nil {
			return nil, named(dir, err)
		}
		d.factor, latent, out = 1, c.Latent, c.Out
		for range len(c.DecoderChannels) - 1 {
			d.factor *= c.Upsampling
		}
		d.build = func(p *nn.Params) (decode, encode through) {
			v := vae.NewTiny(p, c)
			return v.Decode, v.Encode
		}
	} else {
		c, err := vae.ReadConfig(dir)
		if err != nil {
			return nil, named(dir, err)
		}
		var said struct {
			Upcast *bool `json:"force_upcast"`
			Size   any   `json:"sample_size"` // of the pictures that it was trained on; a list in some
		}
		if err := hub.JSON(filepath.Join(dir, "config.json"), &said); err != nil {
			return nil, err
		}
		latent, out = c.Latent, c.Out
		d = klDecoder(c)
		d.forced = said.Upcast == nil || *said.Upcast
		d.tile = usualTile
		if size, ok := said.Size.(float64); ok && size >= 1 && size <= maxSide {
			d.tile = max(1, int(size)/(4*d.factor)) * 4 * d.factor
		}
	}
	if latent != channels || out != 3 {
		return nil, fmt.Errorf("%s: latents of %d channels become pictures of %d; the denoiser's have %d channels, and pictures 3", filepath.Join(dir, "config.json"), latent, out, channels)
	}
	return d, nil
}

// usualTile serves where a folder names no size. (Upstream's 32 pixels are less than a
// decoder looks around itself.)
const usualTile = 512

func klDecoder(c vae.Config) *decoder {
	return &decoder{tile: usualTile, factor: c.Factor(), names: vae.Names, build: func(p *nn.Params) (decode, encode through) {
		v := vae.New(p, c)
		return v.Decode, func(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
			mean, _ := v.Encode(tp, x)
			return v.Scaled(tp, mean)
		}
	}}
}

// Decode is a sample's picture as the autoencoder puts it out: [H, W, 3], about -1 to 1.
func (p *Pipeline) Decode(latents []float64, at Shape) ([]float32, error) {
	all, err := p.DecodeAll([][]float64{latents}, at)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// DecodeAll is the pictures of samples of one shape. With Options.Tile, those that are
// larger are decoded in tiles.
func (p *Pipeline) DecodeAll(latents [][]float64, at Shape) ([][]float32, error) {
	for _, l := range latents {
		if len(l) != at.Len() {
			return nil, fmt.Errorf("latents of %d numbers; a picture of %d x %d has %d", len(l), at.Width, at.Height, at.Len())
		}
	}
	tiling, err := p.Tiling()
	if err != nil {
		return nil, err
	}
	d, precision, err := p.openedDecoder()
	if err != nil {
		return nil, err
	}
	tp := p.tape(precision)
	defer tp.Reset()
	c := p.family.latents.channels
	decode := func(x []float32, part Shape, n int) []float32 {
		defer tp.Reset()
		return d.run(tp, tp.Upload("latents", x, part.maps(n, c)...)).F32()
	}
	var out [][]float32
	each := max(1, (1<<18)/(at.Height*at.Width))
	if tiling.Side > 0 || at.Frames > 0 || d.alone { // clips go through alone
		each = 1
	}
	for len(latents) > 0 {
		n := min(each, len(latents))
		var x, y []float32
		for _, l := range latents[:n] {
			x = append(x, p.Grid(l, at)...)
		}
		if tiling.Side > 0 {
			y, err = tiling.Decode(at.Rows, at.Cols, 3*at.count(), func(t vae.Tile) ([]float32, error) {
				part := Shape{Frames: at.Frames, Times: at.Times, Rows: t.H, Cols: t.W}
				return framesLast(decode(crop(x, at, c, t), part, 1), at.count()), nil
			})
			if err != nil {
				return nil, err
			}
			y = framesFirst(y, at.count())
		} else {
			y = decode(x, at, n)
		}
		for size := len(y) / n; len(y) > 0; y = y[size:] {
			if !finite(y[:size]) {
				return nil, kernels.NotFiniteError("%s: picture %d holds numbers that are infinite or none (try f32)", d.network.name(), len(out))
			}
			out = append(out, y[:size:size])
		}
		latents = latents[n:]
	}
	return out, nil
}

// openedDecoder is the autoencoder in memory, and what it computes in.
func (p *Pipeline) openedDecoder() (*decoder, Precision, error) {
	d, precision := p.decoder, p.Precision
	switch {
	case p.Decoder != nil:
		precision = *p.Decoder
	case d.forced:
		precision = F32
	}
	if d.network == nil {
		n, err := p.load("vae", precision, nil, d.names, func(params *nn.Params) { d.run, d.encode = d.build(params) })
		if err != nil {
			return nil, precision, err
		}
		d.network = n
	}
	return d, precision, nil
}

// Tiling is how large pictures are decoded; no side: whole.
func (p *Pipeline) Tiling() (vae.Tiling, error) {
	d, side := p.decoder, p.Tile
	switch {
	case side == 0:
		return vae.Tiling{}, nil
	case d.tile == 0:
		return vae.Tiling{}, errors.New("tiles: this autoencoder's are not known; an AutoencoderKL has them")
	case side == UsualTile:
		side = d.tile
	}
	t := vae.Tiling{Side: side / d.factor, Factor: d.factor}
	if side%d.factor != 0 || side < 0 {
		return t, fmt.Errorf("tiles of %d pixels: sides must be multiples of %d", side, 4*d.factor)
	}
	return t, t.Check()
}

// crop is a tile of latents [rows, cols, c], of each frame where there are some.
func crop(x []float32, at Shape, c int, t vae.Tile) []float32 {
	var part []float32
	for frame := range max(1, at.Times) {
		for y := t.Y + frame*at.Rows; y < t.Y+frame*at.Rows+t.H; y++ {
			part = append(part, x[(y*at.Cols+t.X)*c:(y*at.Cols+t.X+t.W)*c]...)
		}
	}
	return part
}

// framesLast lays frames [n, pixels, 3] as pixels of 3·n numbers, which is how tiles are put together, and
// framesFirst lays them back.
func framesLast(x []float32, n int) []float32 { return exchanged(x, n, len(x)/(3*n)) }

func framesFirst(x []float32, n int) []float32 { return exchanged(x, len(x)/(3*n), n) }

func exchanged(x []float32, outer, inner int) []float32 {
	if outer == 1 || inner == 1 {
		return x
	}
	y := make([]float32, 0, len(x))
	for i := range inner {
		for o := range outer {
			y = append(y, x[(o*inner+i)*3:][:3]...)
		}
	}
	return y
}

// FreeDecoder lets the autoencoder's weights go.
func (p *Pipeline) FreeDecoder() error {
	err := p.decoder.network.close()
	p.decoder.network = nil
	return err
}

// Grid is a sample's latents as the autoencoder reads them, [Rows, Cols, C].
func (p *Pipeline) Grid(latents []float64, at Shape) []float32 {
	c := p.family.latents.channels
	if !p.family.latents.packed {
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
		if v = float32(v/2) + 0.5; v > 0 { // a number that is none becomes 0
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
