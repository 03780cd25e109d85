package pipeline

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/video/dit"
	clips "github.com/darkroom-rl/darkroom/video/vae"
)

// Wan 2.1 and 2.2 (diffusers' WanPipeline and WanImageToVideoPipeline).
//
// Text is the states of UMT5, which does not see its padding; in its place there are zeros, which the network sees.
// The network's input is 1000·sigma, as a whole number where the folder's scheduler is UniPC; with expand_timesteps
// once for each frame of latents. Pictures that videos begin with: conditioning.go.

var wan = Family{
	Class: "WanPipeline",
	Name:  "Wan 2.1 and 2.2",
	Card:  "A transformer over videos' latents reads UMT5 and predicts a velocity; Wan 2.2's A14B has two that take turns.",
	Paper: "Wan Team, 2025, arXiv 2503.20314",
	Parts: []string{"transformer", "text_encoder", "tokenizer", "vae", "scheduler"},
	Cases: []string{"pipe_wan", "pipe_wan22_t2v", "pipe_wan22_ti2v"},

	Shared: true,
	open:   func(f *folder, o Options) (*architecture, error) { return openWan(f, o, false) },
}

var wanPicture = Family{
	Class: "WanImageToVideoPipeline",
	Name:  "Wan 2.1 and 2.2 of pictures",
	Card:  "Wan that also reads a video's first picture, and its last where the network was trained with both.",
	Paper: wan.Paper,
	Parts: wan.Parts,
	Cases: []string{"pipe_wan_i2v", "pipe_wan_flf2v", "pipe_wan22_i2v"},

	Shared: true,
	open:   func(f *folder, o Options) (*architecture, error) { return openWan(f, o, true) },
}

// wanSettings has the settings of model_index.json beside the parts.
type wanSettings struct {
	Boundary *float64 `json:"boundary_ratio"`
	Expand   bool     `json:"expand_timesteps"`
}

func openWan(f *folder, o Options, picture bool) (*architecture, error) {
	c, err := readConfig(f, "transformer", dit.ReadConfig)
	if err != nil {
		return nil, err
	}
	usual := 512
	if f.zeros > 0 {
		usual = f.zeros
	}
	length, err := o.textLength(usual, false)
	if err != nil {
		return nil, err
	}
	a := &architecture{
		network:  networkSpec{parts: []string{"transformer"}, targets: attention(""), heads: c.Heads, textApart: true},
		latents:  latentSpec{channels: c.Out, patch: c.Side(), unit: c.Side(), most: c.Side() * c.Longest, frames: c.Frames() * c.Longest, together: c.Frames()},
		schedule: scheduleSpec{flow: true},
		defaults: Defaults{Frames: 81, Rate: 16, Height: 480, Width: 832, Pixels: true, Steps: 50, Guidance: 5},
	}
	a.text = textSpec{
		encoders: []encoderPart{{part: "text_encoder", tokenizer: "tokenizer", kind: umt5States, length: length}},
		join:     statesOnly("transformer: config.json: text_dim", c.Text),
	}
	a.network.build = func(p *nn.Params) forward {
		m := dit.New(p, c)
		return func(tp *autograd.Tape, in inputs) *autograd.Value {
			x := in.latents
			if in.beside != nil {
				x = tp.Concat(4, x, in.beside)
			}
			return m.Forward(tp, dit.Inputs{Latents: x, Text: in.text, Picture: in.seen, Time: in.times})
		}
	}
	return a, a.openWan(f, c, picture)
}

// openWan reads the number of networks, and their inputs from pictures.
func (a *architecture) openWan(f *folder, c dit.Config, picture bool) error {
	index := filepath.Join(f.dir, "model_index.json")
	var said wanSettings
	if err := json.Unmarshal(f.raw, &said); err != nil {
		return fmt.Errorf("%s: boundary_ratio or expand_timesteps: %w", index, err)
	}
	if said.Boundary != nil || f.has("transformer_2") {
		switch {
		case said.Boundary == nil || !f.has("transformer_2"):
			return fmt.Errorf("%s: \"boundary_ratio\" and \"transformer_2\" go together; it has only one of them", index)
		case !(*said.Boundary > 0 && *said.Boundary < 1):
			return fmt.Errorf("%s: \"boundary_ratio\" is %v; it must lie between 0 and 1", index, *said.Boundary)
		}
		second, err := readConfig(f, "transformer_2", dit.ReadConfig)
		if err != nil {
			return err
		}
		if fmt.Sprint(second) != fmt.Sprint(c) {
			return fmt.Errorf("%s: transformer and transformer_2 have different settings: %+v and %+v", f.dir, c, second)
		}
		a.network.parts, a.network.boundary = append(a.network.parts, "transformer_2"), 1000*(*said.Boundary)
		if err := f.headers("transformer_2"); err != nil {
			return err
		}
	}
	if a.network.timePerFrame = said.Expand; said.Expand {
		a.defaults.Rate = 24
	}
	switch beside := c.In - c.Out; {
	case said.Expand && c.Frames() > 1:
		return fmt.Errorf("transformer: config.json: a token of %d frames has one time; \"expand_timesteps\" gives each its own", c.Frames())
	case said.Expand && beside == 0:
		a.pictures.read = inFirstLatents
	case beside > c.Out && picture && !said.Expand:
		a.pictures.read = besideLatents
	case beside != 0 || picture:
		return fmt.Errorf("transformer: config.json: %d channels in and %d out do not go with a %s with expand_timesteps %v", c.In, c.Out, f.class, said.Expand)
	}
	if c.Image == 0 {
		return nil
	}
	if a.pictures.read != besideLatents {
		return fmt.Errorf("transformer: config.json: \"image_dim\" is %d, and a %s gives the network no picture", c.Image, f.class)
	}
	var err error
	if a.pictures.encoder, err = openImageEncoder(f); err != nil {
		return err
	}
	if a.pictures.both = c.Places > 0; a.pictures.encoder.config.Width != c.Image {
		return fmt.Errorf("transformer: config.json: image_dim is %d, but image_encoder gives %d numbers a token", c.Image, a.pictures.encoder.config.Width)
	}
	if tokens := a.pictures.encoder.config.Tokens(); a.pictures.both && c.Places != 2*tokens {
		return fmt.Errorf("transformer: config.json: pos_embed_seq_len is %d; two pictures of image_encoder have %d tokens", c.Places, 2*tokens)
	}
	return nil
}

// openClipDecoder reads the settings of an AutoencoderKLWan. It computes in fp32 whatever is asked for, as
// upstream's examples have it: its latents' means and deviations are small beside its activations.
func openClipDecoder(dir string, channels int) (*autoencoder, error) {
	c, err := clips.ReadConfig(dir)
	if err != nil {
		return nil, named(dir, err)
	}
	if c.Latent != channels || c.Channels() != 3 {
		return nil, fmt.Errorf("%s: latents of %d channels become frames of %d; the denoiser's have %d channels, and frames 3", filepath.Join(dir, "config.json"), c.Latent, c.Channels(), channels)
	}
	d := &autoencoder{factor: c.Factor(), span: c.Frames(), forced: true}
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
func openFrameDecoder(dir string, channels int) (*autoencoder, error) {
	d, err := openClipDecoder(dir, channels)
	if err != nil {
		return nil, err
	}
	d.span, d.alone = 0, true
	return d, nil
}
