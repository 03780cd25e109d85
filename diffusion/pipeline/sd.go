package pipeline

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/diffusion/unet"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
)

// Stable Diffusion 1 and 2 (diffusers' StableDiffusionPipeline), sampled by DDIM.
//
// Text is CLIP's states after the final norm. The network is told the step of the ladder.

func openSD(f *folder, _ Options) (*family, error) {
	fam, c, err := openUNet(f, "StableDiffusionPipeline", "", 7.5)
	if err != nil {
		return nil, err
	}
	fam.encoders = []encoderPart{{part: "text_encoder", tokenizer: "tokenizer", kind: clipStates}}
	fam.join = func(said []encoded) (*Text, error) {
		if said[0].width != c.Context {
			return nil, fmt.Errorf("unet: config.json: cross_attention_dim is %d, but text_encoder gives %d numbers a token", c.Context, said[0].width)
		}
		return &Text{States: said[0].states, Tokens: said[0].tokens, Width: c.Context}, nil
	}
	fam.build = func(p *nn.Params) forward {
		m := unet.New(p, c)
		return func(tp *autograd.Tape, in inputs) *autograd.Value {
			return m.Forward(tp, unet.Inputs{Latents: in.latents, Text: in.text, Time: in.times})
		}
	}
	return fam, nil
}

// openUNet is what pipelines of U-Nets have in common; added is what their network adds to the embedding of times.
func openUNet(f *folder, class, added string, guidance float64) (*family, unet.Config, error) {
	c, err := readConfig(f, "unet", unet.ReadConfig)
	if err != nil {
		return nil, c, err
	}
	height, width, err := unetSize(f)
	if err != nil {
		return nil, c, err
	}
	if c.Added != added || c.Out != c.In {
		return nil, c, fmt.Errorf("unet: config.json: addition_embed_type %q, %d channels in and %d out: this is not the network of a %s", c.Added, c.In, c.Out, class)
	}
	return &family{component: "unet", targets: unetTargets(), kohya: peft.UNet, latentChannels: c.In, patch: 1,
		side:     func(factor int) int { return factor << (len(c.Channels) - 1) },
		most:     func(int) int { return 0 },
		defaults: Defaults{Height: height, Width: width, Steps: 50, Guidance: guidance},
	}, c, nil
}

// unetTargets are the projections of both attentions of a U-Net (ddpo-pytorch, diffusers' examples).
func unetTargets() []string { return []string{"to_q", "to_k", "to_v", "to_out.0"} }

// unetSize is the sides of latents that a U-Net was trained on: one number, or two.
func unetSize(f *folder) (height, width int, err error) {
	dir, err := f.part("unet")
	if err != nil {
		return 0, 0, err
	}
	path := filepath.Join(dir, "config.json")
	var said struct {
		Size json.RawMessage `json:"sample_size"`
	}
	if err := hub.JSON(path, &said); err != nil {
		return 0, 0, err
	}
	var both []int
	switch {
	case len(said.Size) == 0 || string(said.Size) == "null":
		return 64, 64, nil
	case json.Unmarshal(said.Size, &height) == nil:
		return height, height, nil
	case json.Unmarshal(said.Size, &both) == nil && len(both) == 2:
		return both[0], both[1], nil
	}
	return 0, 0, fmt.Errorf("%s: \"sample_size\" is %.40s; a number, or two, were expected", path, said.Size)
}
