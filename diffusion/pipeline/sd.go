package pipeline

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/diffusion/single"
	"github.com/darkroom-rl/darkroom/diffusion/unet"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
)

// Stable Diffusion 1 and 2 (diffusers' StableDiffusionPipeline), sampled by DDIM.
//
// Text is CLIP's states after the final norm. The network reads the step of its training schedule.

var stableDiffusion = Family{
	Class: "StableDiffusionPipeline",
	Name:  "Stable Diffusion 1 and 2",
	Card:  "A U-Net over latents of 8 x 8 pixels reads CLIP's states and predicts noise or v; DDIM samples it.",
	Paper: "Rombach et al., 2022, arXiv 2112.10752",
	Parts: []string{"unet", "text_encoder", "tokenizer", "vae", "scheduler"},
	Cases: []string{"pipe_sd15"},
	File:  single.UNet, Kohya: peft.UNet,
	open: openSD,
}

func openSD(f *folder, _ Options) (*architecture, error) {
	a, c, err := openUNet(f, "StableDiffusionPipeline", "", 7.5)
	if err != nil {
		return nil, err
	}
	a.text.encoders = []encoderPart{{part: "text_encoder", tokenizer: "tokenizer", kind: clipStates}}
	a.text.join = statesOnly("unet: config.json: cross_attention_dim", c.Context)
	a.network.build = func(p *nn.Params) forward {
		m := unet.New(p, c)
		return func(tp *autograd.Tape, in inputs) *autograd.Value {
			return m.Forward(tp, unet.Inputs{Latents: in.latents, Text: in.text, Time: in.times})
		}
	}
	return a, nil
}

// openUNet is the common part of pipelines of U-Nets; added names their network's addition to the embedding of times.
func openUNet(f *folder, class, added string, guidance float64) (*architecture, unet.Config, error) {
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
	return &architecture{
		network:  networkSpec{parts: []string{"unet"}, targets: attention("")}, // of both attentions (ddpo-pytorch, diffusers' examples)
		latents:  latentSpec{channels: c.In, patch: 1, unit: 1 << (len(c.Channels) - 1)},
		defaults: Defaults{Height: height, Width: width, Steps: 50, Guidance: guidance},
	}, c, nil
}

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
