package pipeline

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/diffusion/vae"
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
)

// Autoencoders: pictures to latents and back, and gradients of pictures at latents (PullDecode), for methods that
// follow a reward's own gradient.
//
// Invariants (tests): gradients agree with differences; a picture and its gradient do not depend on their batch.

// autoencoder goes from pictures to latents, and back.
type autoencoder struct {
	*loader
	*layout
	tile    int  // pixels a side of upstream's tiles; 0: it has none
	factor  int  // pixels a side of a latent pixel covers
	span    int  // frames of a video that a frame of latents covers; 0: it is of pictures
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

func openAutoencoder(f *folder, channels int) (*autoencoder, error) {
	dir, err := f.part("vae")
	if err != nil {
		return nil, err
	}
	d := &autoencoder{}
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

func klDecoder(c vae.Config) *autoencoder {
	return &autoencoder{tile: usualTile, factor: c.Factor(), names: vae.Names, build: func(p *nn.Params) (decode, encode through) {
		v := vae.New(p, c)
		return v.Decode, func(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
			mean, _ := v.Encode(tp, x)
			return v.Scaled(tp, mean)
		}
	}}
}

// Decode is a sample's picture as the autoencoder puts it out: [H, W, 3], about -1 to 1.
func (d *autoencoder) Decode(latents []float64, at Shape) ([]float32, error) {
	all, err := d.DecodeAll([][]float64{latents}, at)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// DecodeAll is the pictures of samples of one shape. With Options.Tile, those that are
// larger are decoded in tiles.
func (d *autoencoder) DecodeAll(latents [][]float64, at Shape) ([][]float32, error) {
	for _, l := range latents {
		if len(l) != at.Len() {
			return nil, fmt.Errorf("latents of %d numbers; a picture of %d x %d has %d", len(l), at.Width, at.Height, at.Len())
		}
	}
	tiling, err := d.Tiling()
	if err != nil {
		return nil, err
	}
	precision, err := d.opened()
	if err != nil {
		return nil, err
	}
	tp := d.tape(precision)
	defer tp.Reset()
	c := d.channels
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
			x = append(x, d.Grid(l, at)...)
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

// opened loads the autoencoder, and returns the precision that it computes in.
func (d *autoencoder) opened() (Precision, error) {
	precision := d.Precision
	switch {
	case d.Decoder != nil:
		precision = *d.Decoder
	case d.forced:
		precision = F32
	}
	if d.network == nil {
		n, err := d.load("vae", nn.Options{Math: precision.math()}, plainly(d.names), func(params *nn.Params) { d.run, d.encode = d.build(params) })
		if err != nil {
			return precision, err
		}
		d.network = n
	}
	return precision, nil
}

// Tiling is how large pictures are decoded; no side: whole.
func (d *autoencoder) Tiling() (vae.Tiling, error) {
	side := d.Tile
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

// Pixels takes Decode's result to numbers from 0 to 1.
func Pixels(raw []float32) []float32 {
	out := make([]float32, len(raw))
	for i, v := range raw {
		if v = float32(v/2) + 0.5; v > 0 { // NaN becomes 0
			out[i] = min(v, 1)
		}
	}
	return out
}

// mostKept is how many pixels a decoder goes back through with all its values kept; of larger
// pictures its blocks run again.
const mostKept = 256 * 256

// PullDecode decodes samples of one shape, asks of for gradients at the pictures of a batch whose
// first is number from, and takes them back to the latents. Pictures are as DecodeAll's; tiles
// are not possible.
func (d *autoencoder) PullDecode(latents [][]float64, at Shape, of func(from int, raw [][]float32) ([][]float32, error)) ([][]float64, error) {
	if d.Tile != 0 {
		return nil, fmt.Errorf("gradients of pictures that are decoded in tiles: decode them whole")
	}
	precision, err := d.opened()
	if err != nil {
		return nil, err
	}
	pixels, again := at.Pixels(), 0
	if pixels > mostKept {
		again = autograd.AllBlocks
	}
	tp := autograd.New(d.Pool, autograd.Options{DType: precision.dtype(), Math: precision.math(), Train: true, Checkpoint: again})
	defer tp.Reset()
	var out [][]float64
	each := max(1, mostKept/pixels)
	if at.Frames > 0 || d.alone { // clips go through alone
		each = 1
	}
	for from := 0; from < len(latents); from += each {
		some := latents[from:min(from+each, len(latents))]
		var x []float32
		for _, l := range some {
			if len(l) != at.Len() {
				return nil, fmt.Errorf("latents of %d numbers; a picture of %d x %d has %d", len(l), at.Width, at.Height, at.Len())
			}
			x = append(x, d.Grid(l, at)...)
		}
		tp.Reset()
		in := variable(tp, "latents", x, at.maps(len(some), d.channels)...)
		y := d.run(tp, in)
		raw, all := make([][]float32, len(some)), y.F32()
		size := 3 * pixels
		for i := range raw {
			if raw[i] = all[i*size : (i+1)*size : (i+1)*size]; !finite(raw[i]) {
				return nil, kernels.NotFiniteError("%s: picture %d holds numbers that are infinite or none (try f32)", d.network.name(), from+i)
			}
		}
		grads, err := of(from, raw)
		if err != nil {
			return nil, err
		}
		seed, err := seeds(grads, len(some), size)
		if err != nil {
			return nil, err
		}
		tp.Backward(autograd.Seed{Of: y, Grad: seed})
		g, n := gradient(in), len(x)/len(some)
		for i := range some {
			out = append(out, d.ungrid(g[i*n:(i+1)*n:(i+1)*n], at))
		}
	}
	return out, nil
}

// seeds joins gradients at n pictures of a size.
func seeds(grads [][]float32, n, size int) ([]float32, error) {
	if len(grads) != n {
		return nil, fmt.Errorf("%d gradients for %d pictures", len(grads), n)
	}
	seed := make([]float32, 0, n*size)
	for i, g := range grads {
		if len(g) != size {
			return nil, fmt.Errorf("gradient %d has %d numbers for a picture of %d", i, len(g), size)
		}
		for _, v := range g {
			if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
				return nil, kernels.NotFiniteError("gradient %d holds a number that is infinite or none", i)
			}
		}
		seed = append(seed, g...)
	}
	return seed, nil
}

// EncodeAll is the latents of pictures [H, W, 3], or clips [Frames, H, W, 3], between -1 and 1, as diffusion sees
// them: the middle of the autoencoder's distribution.
func (d *autoencoder) EncodeAll(pictures [][]float32, at Shape) ([][]float64, error) {
	precision, err := d.opened()
	if err != nil {
		return nil, err
	}
	tp := d.tape(precision)
	defer tp.Reset()
	each, size, n := max(1, (1<<18)/(at.Height*at.Width)), 3*at.Pixels(), max(1, at.Times)*at.Rows*at.Cols*d.channels
	if at.Frames > 0 || d.alone { // clips go through alone
		each = 1
	}
	var out [][]float64
	for from := 0; from < len(pictures); from += each {
		some := pictures[from:min(from+each, len(pictures))]
		x, err := seeds(some, len(some), size)
		if err != nil {
			return nil, fmt.Errorf("encoding pictures: %w", err)
		}
		tp.Reset()
		z := widened(d.encode(tp, tp.Upload("pictures", x, at.pictures(len(some))...)).F32())
		for i := range some {
			if one := z[i*n : (i+1)*n : (i+1)*n]; finite(one) {
				out = append(out, d.ungrid(one, at))
			} else {
				return nil, kernels.NotFiniteError("%s: the latents of picture %d are infinite or none (try f32)", d.network.name(), from+i)
			}
		}
	}
	return out, nil
}

// FreeDecoder lets the autoencoder's weights go.
func (d *autoencoder) FreeDecoder() error {
	err := d.network.close()
	d.network = nil
	return err
}
