package pipeline

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/diffusion/mmdit"
	"github.com/darkroom-rl/darkroom/diffusion/single"
	"github.com/darkroom-rl/darkroom/diffusion/vae"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/sde"
)

// Stable Diffusion 3 and 3.5 (diffusers' StableDiffusion3Pipeline).
//
// Text is the states before the last layer of two CLIP encoders side by side, filled up with zeros to the joint
// width, then the states of T5, which sees its padding too; pooled are the two projections. Without a third encoder
// its states are zeros, as many as it would have read. The network's input is 1000·sigma.

var stableDiffusion3 = Family{
	Class: "StableDiffusion3Pipeline",
	Name:  "Stable Diffusion 3 and 3.5",
	Card:  "A multimodal transformer reads two CLIP encoders and T5, or zeros in T5's place, and predicts a velocity.",
	Paper: "Esser et al., 2024, arXiv 2403.03206",
	Parts: []string{"transformer", "text_encoder", "tokenizer", "text_encoder_2", "tokenizer_2", "vae", "scheduler"},
	Cases: []string{"pipe_sd3"},

	Shared: true,
	File:   single.SD3,
	open:   openSD3,
}

func openSD3(f *folder, o Options) (*architecture, error) {
	c, err := readConfig(f, "transformer", mmdit.ReadConfig)
	if err != nil {
		return nil, err
	}
	otherwise := 256
	if !f.has("text_encoder_3") && f.zeros >= 0 {
		otherwise = f.zeros
	}
	length, err := o.textLength(otherwise, !f.has("text_encoder_3"))
	if err != nil {
		return nil, err
	}
	if c.Out != c.In {
		return nil, fmt.Errorf("transformer: config.json: %d channels out and %d in; a sampler needs as many", c.Out, c.In)
	}
	return sd3Of(c, length, f.has("text_encoder_3")), nil
}

// sd3Of is the architecture of a network; T5's length is that of zeros where there is no third encoder.
func sd3Of(c mmdit.Config, length int, third bool) *architecture {
	a := &architecture{
		network:  networkSpec{parts: []string{"transformer"}, targets: attention("attn."), heads: c.Heads},
		latents:  latentSpec{channels: c.In, patch: c.PatchSize, unit: c.PatchSize, most: c.PatchSize * c.PositionsSide},
		schedule: scheduleSpec{flow: true},
		defaults: Defaults{Height: c.SampleSize, Width: c.SampleSize, Steps: 28, Guidance: 7},
	}
	a.text.zeros = !third
	a.text.encoders = []encoderPart{{part: "text_encoder", tokenizer: "tokenizer", kind: clipProjected}, {part: "text_encoder_2", tokenizer: "tokenizer_2", kind: clipProjected, lengthOf: "tokenizer"}}
	if third {
		a.text.encoders = append(a.text.encoders, encoderPart{part: "text_encoder_3", tokenizer: "tokenizer_3", kind: t5States, length: length})
	}
	a.text.join = func(said []encoded) (*Text, error) {
		text := &Text{Width: c.Context}
		narrow := said[0].width + said[1].width
		switch {
		case narrow > c.Context:
			return nil, fmt.Errorf("transformer: config.json: joint_attention_dim is %d, but the two CLIP encoders give %d numbers a token", c.Context, narrow)
		case len(said) > 2 && said[2].width != c.Context:
			return nil, fmt.Errorf("transformer: config.json: joint_attention_dim is %d, but text_encoder_3 gives %d numbers a token", c.Context, said[2].width)
		}
		for t := range said[0].tokens {
			text.States = append(append(append(text.States, said[0].row(t)...), said[1].row(t)...), make([]float32, c.Context-narrow)...)
		}
		if len(said) > 2 {
			text.States = append(text.States, said[2].states...)
		} else {
			text.States = append(text.States, make([]float32, length*c.Context)...)
		}
		text.Tokens = len(text.States) / c.Context
		text.Pooled = append(append(text.Pooled, said[0].pooled...), said[1].pooled...)
		if len(text.Pooled) != c.Pooled {
			return nil, fmt.Errorf("transformer: config.json: pooled_projection_dim is %d, but the two CLIP encoders project to %d", c.Pooled, len(text.Pooled))
		}
		return text, nil
	}
	a.network.build = func(p *nn.Params) forward {
		m := mmdit.New(p, c)
		return func(tp *autograd.Tape, in inputs) *autograd.Value {
			return m.Forward(tp, in.latents, in.text, in.pooled, in.times)
		}
	}
	return a
}

// Drawn is a Stable Diffusion 3 of any size whose weights are drawn and not read, without
// text encoders: time and memory are measured on it with the very code that works on
// folders. Texts are the caller's to make.
type Drawn struct {
	Network mmdit.Config
	Decoder vae.Config
	Shift   float64 // of the schedule
	Key     rng.Key
}

// Open makes the pipeline.
func (d Drawn) Open(o Options) (*Pipeline, error) {
	for _, err := range []error{named("the network", d.Network.Check()), named("the autoencoder", d.Decoder.Check())} {
		if err != nil {
			return nil, err
		}
	}
	if d.Network.In != d.Network.Out || d.Network.In != d.Decoder.Latent || d.Decoder.Out != 3 {
		return nil, fmt.Errorf("a network of %d channels in and %d out does not go with latents of %d channels and pictures of %d", d.Network.In, d.Network.Out, d.Decoder.Latent, d.Decoder.Out)
	}
	if !(d.Shift > 0) {
		return nil, fmt.Errorf("a shift of %v; it must be positive", d.Shift)
	}
	flow := sde.DefaultFlow()
	flow.Shift = d.Shift
	a := sd3Of(d.Network, 0, false)
	a.family = stableDiffusion3
	l := &loader{Options: o, folder: &folder{class: a.family.Class, drawn: &d}}
	return assembled(l, a, &texts{}, klDecoder(d.Decoder), &scheduler{spec: a.schedule, steps: a.defaults.Steps, flow: flow}), nil
}
