package pipeline

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/video/dit"
)

// Wan 2.1 and 2.2 (diffusers' WanPipeline and WanImageToVideoPipeline).
//
// Text is the states of UMT5, which does not see its padding; in its place there are zeros, which the
// network sees. The network is told 1000·sigma, as a whole number where the folder's scheduler is UniPC;
// with expand_timesteps once for each frame of latents. What clips are given of pictures: given.go.

func openWan(f *folder, o Options) (*family, error)        { return wanFamily(f, o, false) }
func openWanPicture(f *folder, o Options) (*family, error) { return wanFamily(f, o, true) }

// wanSettings is what model_index.json says besides the parts.
type wanSettings struct {
	Boundary *float64 `json:"boundary_ratio"`
	Expand   bool     `json:"expand_timesteps"`
}

func wanFamily(f *folder, o Options, picture bool) (*family, error) {
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
	fam := &family{component: "transformer", targets: []string{"to_q", "to_k", "to_v", "to_out.0"}, flow: true, latentChannels: c.Out, patch: c.Side(), longest: c.Frames() * c.Longest, together: c.Frames(),
		encoders: []encoderPart{{part: "text_encoder", tokenizer: "tokenizer", kind: umt5States, length: length}},
		side:     func(factor int) int { return factor * c.Side() },
		most:     func(factor int) int { return factor * c.Side() * c.Longest },
		defaults: Defaults{Frames: 81, Rate: 16, Height: 480, Width: 832, Pixels: true, Steps: 50, Guidance: 5},
	}
	fam.join = func(said []encoded) (*Text, error) {
		if said[0].width != c.Text {
			return nil, fmt.Errorf("transformer: config.json: text_dim is %d, but text_encoder gives %d numbers a token", c.Text, said[0].width)
		}
		return &Text{States: said[0].states, Tokens: said[0].tokens, Width: c.Text}, nil
	}
	fam.build = func(p *nn.Params) forward {
		m := dit.New(p, c)
		return func(tp *autograd.Tape, in inputs) *autograd.Value {
			x := in.latents
			if in.beside != nil {
				x = tp.Concat(4, x, in.beside)
			}
			return m.Forward(tp, dit.Inputs{Latents: x, Text: in.text, Picture: in.seen, Time: in.times})
		}
	}
	return fam, fam.wan(f, c, picture)
}

// wan reads which networks there are, and what they read of pictures.
func (fam *family) wan(f *folder, c dit.Config, picture bool) error {
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
		fam.second, fam.boundary = "transformer_2", 1000*(*said.Boundary)
		if err := f.headers("transformer_2"); err != nil {
			return err
		}
	}
	if fam.expand = said.Expand; fam.expand {
		fam.defaults.Rate = 24
	}
	switch beside := c.In - c.Out; {
	case said.Expand && c.Frames() > 1:
		return fmt.Errorf("transformer: config.json: a token of %d frames has one time; \"expand_timesteps\" gives each its own", c.Frames())
	case said.Expand && beside == 0:
		fam.reads = inFirstLatents
	case beside > c.Out && picture && !said.Expand:
		fam.reads = besideLatents
	case beside != 0 || picture:
		return fmt.Errorf("transformer: config.json: %d channels in and %d out do not go with a %s with expand_timesteps %v", c.In, c.Out, f.class, said.Expand)
	}
	if c.Image == 0 {
		return nil
	}
	if fam.reads != besideLatents {
		return fmt.Errorf("transformer: config.json: \"image_dim\" is %d, and a %s gives the network no picture", c.Image, f.class)
	}
	var err error
	if fam.sight, err = openSight(f); err != nil {
		return err
	}
	if fam.both = c.Places > 0; fam.sight.config.Width != c.Image {
		return fmt.Errorf("transformer: config.json: image_dim is %d, but image_encoder gives %d numbers a token", c.Image, fam.sight.config.Width)
	}
	if tokens := fam.sight.config.Tokens(); fam.both && c.Places != 2*tokens {
		return fmt.Errorf("transformer: config.json: pos_embed_seq_len is %d; two pictures of image_encoder have %d tokens", c.Places, 2*tokens)
	}
	return nil
}
