package main

import (
	"slices"
	"strings"

	"github.com/darkroom-rl/darkroom/diffusion/flux"
	"github.com/darkroom-rl/darkroom/diffusion/mmdit"
	"github.com/darkroom-rl/darkroom/diffusion/qwenimage"
	"github.com/darkroom-rl/darkroom/diffusion/t5"
	"github.com/darkroom-rl/darkroom/diffusion/unet"
	"github.com/darkroom-rl/darkroom/diffusion/vae"
	"github.com/darkroom-rl/darkroom/kernels/cpu"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/safetensors"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
	"github.com/darkroom-rl/darkroom/video/dit"
	clips "github.com/darkroom-rl/darkroom/video/vae"
	"github.com/darkroom-rl/darkroom/vision/clip"
	"github.com/darkroom-rl/darkroom/vision/vlm"
)

// build asks for a network's parameters by the settings in a folder.
type build func(dir string, p *nn.Params) error

// with is a build of a package's reader of settings and its network.
func with[C any](read func(dir string) (C, error), network func(*nn.Params, C)) build {
	return func(dir string, p *nn.Params) error {
		c, err := read(dir)
		if err == nil {
			network(p, c)
		}
		return err
	}
}

// networks are the classes that parts have.
var networks = map[string]build{
	"SD3Transformer2DModel":              with(mmdit.ReadConfig, func(p *nn.Params, c mmdit.Config) { mmdit.New(p, c) }),
	"QwenImageTransformer2DModel":        with(qwenimage.ReadConfig, func(p *nn.Params, c qwenimage.Config) { qwenimage.New(p, c) }),
	"UNet2DConditionModel":               with(unet.ReadConfig, func(p *nn.Params, c unet.Config) { unet.New(p, c) }),
	"WanTransformer3DModel":              with(dit.ReadConfig, func(p *nn.Params, c dit.Config) { dit.New(p, c) }),
	"AutoencoderKL":                      with(vae.ReadConfig, func(p *nn.Params, c vae.Config) { vae.New(p, c) }),
	"AutoencoderKLWan":                   with(clips.ReadConfig, func(p *nn.Params, c clips.Config) { clips.New(p, c) }),
	"AutoencoderKLQwenImage":             with(clips.ReadConfig, func(p *nn.Params, c clips.Config) { clips.New(p, c) }),
	"CLIPTextModel":                      with(clip.ReadTextConfig, func(p *nn.Params, c clip.TextConfig) { clip.NewText(p, c, false) }),
	"CLIPTextModelWithProjection":        with(clip.ReadTextConfig, func(p *nn.Params, c clip.TextConfig) { clip.NewText(p, c, true) }),
	"FluxTransformer2DModel":             with(flux.ReadConfig, func(p *nn.Params, c flux.Config) { flux.New(p, c) }),
	"T5EncoderModel":                     with(t5.ReadConfig, func(p *nn.Params, c t5.Config) { t5.New(p, c) }),
	"UMT5EncoderModel":                   with(t5.ReadConfig, func(p *nn.Params, c t5.Config) { t5.New(p, c) }),
	"Qwen2_5_VLForConditionalGeneration": with(vlm.ReadConfig, func(p *nn.Params, c vlm.Config) { vlm.New(p, c) }),
}

// asked are the names and sizes of a network's parameters. It is built where nothing is computed.
func (b build) asked(dir string) (map[string][]int, error) {
	path, err := isa.Choose()
	if err != nil {
		return nil, err
	}
	p, err := nn.New(nn.Options{Pool: tensor.NewPool(cpu.NewDry(cpu.Options{Path: path}))})
	if err != nil {
		return nil, err
	}
	if err := b(dir, p); err != nil {
		return nil, err
	}
	return p.Asked(), p.Check()
}

// tensors are parameters without values, by name.
func tensors(asked map[string][]int, d safetensors.DType) (all []safetensors.Tensor, parameters int) {
	for name, shape := range asked {
		t := safetensors.Tensor{Name: name, DType: d, Shape: shape}
		all = append(all, t)
		if !strings.HasSuffix(name, "pos_embed.pos_embed") { // a table
			parameters += size(shape)
		}
	}
	slices.SortFunc(all, func(a, b safetensors.Tensor) int { return strings.Compare(a.Name, b.Name) })
	return all, parameters
}

func size(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}
