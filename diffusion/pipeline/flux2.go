package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/diffusion/flux2"
	"github.com/darkroom-rl/darkroom/diffusion/vae"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/vision"
)

// FLUX.2-klein (diffusers' Flux2KleinPipeline), of texts and of pictures.
//
// Text is the states of three of Qwen3's layers side by side, 9, 18 and 27 whatever its depth, of a text that is
// filled up with padding, which the network reads, too. Upstream reads no encoder of fewer layers unless
// text_encoder_out_layers (Options.TextLayers) names others; here those of a quarter, a half and three quarters are
// read. Latents are packed and normalised (AutoencoderKLFlux2 below). Pictures are cut to a multiple of 16 in the
// middle, and their tokens' first places are 10, 20, ... Guidance combines the prompt with the empty one. The grid
// of sigmas is 1, ..., 1/n, whose shift depends on the number of tokens and of steps.
//
// Invariant (test): texts, steps and pixels are those of upstream's pipeline.

var klein = Family{
	Class: "Flux2KleinPipeline",
	Name:  "FLUX.2-klein",
	Card:  "A transformer over packed, normalised latents reads three layers of Qwen3 and the tokens of pictures that it changes.",
	Paper: "Black Forest Labs, 2025",
	Parts: []string{"transformer", "text_encoder", "tokenizer", "vae", "scheduler"},
	Cases: []string{"pipe_flux2_klein"},

	Shared: true,
	open:   openKlein,
}

func openKlein(f *folder, o Options) (*architecture, error) {
	c, err := readConfig(f, "transformer", flux2.ReadConfig)
	if err != nil {
		return nil, err
	}
	length, err := o.textLength(512, false)
	if err != nil {
		return nil, err
	}
	if c.In%4 != 0 || c.Out != c.In || c.Guidance {
		return nil, fmt.Errorf("transformer: config.json: %d channels in and %d out with guidance_embeds %v; FLUX.2-klein's packed latents have a multiple of 4, as many out, and no guidance_embeds", c.In, c.Out, c.Guidance)
	}
	var said struct {
		Distilled bool `json:"is_distilled"`
	}
	if err := json.Unmarshal(f.raw, &said); err != nil {
		return nil, fmt.Errorf("%s: is_distilled: %w", filepath.Join(f.dir, "model_index.json"), err)
	}
	form := promptForm{before: "<|im_start|>user\n", after: qwenAnswer + "<think>\n\n</think>\n\n", filled: true, read: kleinLayers, chosen: o.TextLayers}
	a := &architecture{
		network:  networkSpec{parts: []string{"transformer"}, targets: attention("attn."), heads: c.Heads},
		latents:  packedLatents(c.In / 4),
		schedule: scheduleSpec{flow: true, base: sde.DownFromOne, shift: kleinShift},
		pictures: pictureSpec{read: besideTokens, sources: &sourceRules{most: mostSources, fits: fitsKlein, cut: cutInMiddle}},
		defaults: Defaults{Height: 1024, Width: 1024, Pixels: true, Steps: 50, Guidance: 4},
	}
	if said.Distilled {
		a.defaults.Steps, a.defaults.Guidance = 4, 1
	}
	a.text.encoders = []encoderPart{{part: "text_encoder", tokenizer: "tokenizer", kind: promptStates, length: length, form: form}}
	a.text.join = func(said []encoded) (*Text, error) {
		if said[0].width != c.Context {
			return nil, fmt.Errorf("transformer: config.json: joint_attention_dim is %d, but the layers of text_encoder that are read give %d numbers a token", c.Context, said[0].width)
		}
		return said[0].text(), nil
	}
	a.network.build = func(p *nn.Params) forward {
		m := flux2.New(p, c)
		return func(tp *autograd.Tape, in inputs) *autograd.Value {
			places := flux2.Grid(0, in.at.Rows/2, in.at.Cols/2)
			for i, g := range in.grids {
				places = append(places, flux2.Grid(10*(i+1), g.rows, g.cols)...)
			}
			return m.Forward(tp, flux2.Inputs{Latents: in.latents, Sources: in.sources, Text: in.text, Time: sigmasOf(in.times), Places: places, TextPlaces: flux2.Words(in.text.Dim(1))})
		}
	}
	return a, nil
}

// kleinLayers are the layers whose states are read.
func kleinLayers(layers int) []int {
	if published := []int{9, 18, 27}; layers >= published[2] {
		return published
	}
	return []int{layers / 4, layers / 2, layers * 3 / 4}
}

// kleinShift is compute_empirical_mu upstream: a line through 10 and 200 steps, each a line in tokens.
func kleinShift(tokens, steps int) float64 {
	at := func(slope, base float64) float64 { return float64(slope*float64(tokens)) + base }
	far, near := at(0.00016927, 0.45666666), at(8.73809524e-05, 1.89833333)
	if tokens > 4300 {
		return far
	}
	a := (far - near) / 190
	return float64(a*float64(steps)) + far - float64(200*a)
}

// fitsKlein is why pictures of a size are not read.
func fitsKlein(w, h int) error {
	const least, longest = 64, 8
	switch {
	case min(w, h) < least:
		return fmt.Errorf("a picture of %d x %d: FLUX.2 reads those of %d pixels a side and more: enlarge it first", w, h, least)
	case max(w, h) > longest*min(w, h):
		return errors.New("a picture more than eight times as long as wide: cut it first")
	}
	return nil
}

// cutInMiddle takes the middle of a picture whose sides are multiples of side; above an area, 0 for 1024² pixels, it is
// made smaller first, unless it is to stay as it is.
func cutInMiddle(m *vision.Image, side, area int) (*vision.Image, error) {
	if area == 0 {
		area = 1024 * 1024
	}
	w, h := m.Width, m.Height
	if err := fitsKlein(w, h); err != nil {
		return nil, err
	}
	if area > 0 && w*h > area {
		scale := math.Sqrt(float64(area) / float64(w*h))
		var err error
		if m, err = resized(m, int(float64(float64(w)*scale)), int(float64(float64(h)*scale))); err != nil {
			return nil, err
		}
	}
	w, h = m.Width/side*side, m.Height/side*side
	return m.Crop((m.Width-w)/2, (m.Height-h)/2, w, h)
}

// AutoencoderKLFlux2 is an AutoencoderKL whose latents are normalised patch by patch: each of the numbers of a 2 x 2
// patch has a mean and a variance of its own, which the file has as those of a batch norm. Number c·4 + 2·dy + dx is
// channel c of the patch's pixel (dy, dx).

func openKleinDecoder(dir string) (*autoencoder, vae.Config, error) {
	c, err := vae.ReadConfig(dir)
	if err != nil {
		return nil, c, named(dir, err)
	}
	c.Scaling, c.Shift = 1, 0
	said := struct {
		Eps float64 `json:"batch_norm_eps"`
	}{1e-4}
	if err := hub.JSON(filepath.Join(dir, "config.json"), &said); err != nil {
		return nil, c, err
	}
	d := klDecoder(c)
	d.build = func(p *nn.Params) (decode, encode through) {
		v, s := vae.New(p, c), newPatchScale(p.Sub("bn"), c.Latent, said.Eps)
		return func(tp *autograd.Tape, x *autograd.Value) *autograd.Value { return v.Decode(tp, s.apply(tp, x, false)) },
			func(tp *autograd.Tape, x *autograd.Value) *autograd.Value {
				mean, _ := v.Encode(tp, x)
				return s.apply(tp, mean, true)
			}
	}
	return d, c, nil
}

// patchScale is the means and deviations of patches' numbers.
type patchScale struct {
	mean, variance *nn.Buffer
	channels       int
	eps            float64
}

func newPatchScale(p *nn.Params, channels int, eps float64) patchScale {
	p.Ignore("num_batches_tracked")
	of := func(name string, v float32) *nn.Buffer {
		return p.Buffer(name, func() []float32 {
			x := make([]float32, 4*channels)
			for i := range x {
				x[i] = v
			}
			return x
		}, 4*channels)
	}
	return patchScale{of("running_mean", 0), of("running_var", 1), channels, eps}
}

// apply is x·deviation + mean for latents [n, H, W, channels], or with normalise the other way.
func (s patchScale) apply(tp *autograd.Tape, x *autograd.Value, normalise bool) *autograd.Value {
	mean, variance := s.mean.Rows(0, 1), s.variance.Rows(0, 1)
	scale, shift := make([]float32, len(mean)), make([]float32, len(mean))
	for c := range s.channels {
		for pixel := range 4 {
			from, to := c*4+pixel, pixel*s.channels+c
			deviation := math.Sqrt(float64(variance[from]) + s.eps)
			scale[to], shift[to] = float32(deviation-1), mean[from]
			if normalise {
				scale[to], shift[to] = float32(1/deviation-1), float32(-float64(mean[from])/deviation)
			}
		}
	}
	n, h, w, c := x.Dim(0), x.Dim(1)/2, x.Dim(2)/2, s.channels
	patches := tp.Reshape(tp.Permute(tp.Reshape(x, n*h, 2, w, 2*c), 0, 2, 1, 3), n, h*w, 4*c)
	y := tp.Modulate(patches, tp.Upload("scale of patches", scale, 1, 4*c), tp.Upload("shift of patches", shift, 1, 4*c))
	return tp.Reshape(tp.Permute(tp.Reshape(y, n*h, w, 2, 2*c), 0, 2, 1, 3), n, 2*h, 2*w, c)
}
