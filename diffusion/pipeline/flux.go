package pipeline

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/diffusion/flux"
	"github.com/darkroom-rl/darkroom/diffusion/single"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
	"github.com/darkroom-rl/darkroom/sde"
)

// FLUX.1 (diffusers' FluxPipeline).
//
// Text is the states of T5, pooled is CLIP's. Latents are packed. The network's inputs are sigma and, in FLUX.1-dev,
// the guidance scale; guidance by two outputs is asked for besides. The grid of sigmas is 1, ..., 1/n, shifted by the
// number of tokens.

var flux1 = Family{
	Class: "FluxPipeline",
	Name:  "FLUX.1",
	Card:  "A transformer of two kinds of blocks over packed latents reads T5, a pooled CLIP text and perhaps the guidance scale.",
	Paper: "Black Forest Labs, 2024; BFL et al., 2025, arXiv 2506.15742",
	Parts: []string{"transformer", "text_encoder", "tokenizer", "text_encoder_2", "tokenizer_2", "vae", "scheduler"},
	Cases: []string{"pipe_flux", "pipe_flux_schnell"},

	Shared: true,
	File:   single.FLUX, Kohya: peft.FLUX,
	open: openFlux,
}

func openFlux(f *folder, o Options) (*architecture, error) {
	c, err := readConfig(f, "transformer", flux.ReadConfig)
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
	switch {
	case c.In%4 != 0 || c.PatchSize != 1 || c.Out != c.In:
		return nil, fmt.Errorf("transformer: config.json: %d channels in and %d out with patch_size %d; packed latents have a multiple of 4, as many out, and patch_size 1", c.In, c.Out, c.PatchSize)
	case len(c.Axes) != 3:
		return nil, fmt.Errorf("transformer: config.json: axes_dims_rope has %d numbers; 3 are needed", len(c.Axes))
	}
	a := &architecture{
		network:  networkSpec{parts: []string{"transformer"}, targets: attention("attn."), heads: c.Heads, embedded: c.Guidance},
		latents:  packedLatents(c.In / 4),
		schedule: scheduleSpec{flow: true, base: sde.DownFromOne},
		defaults: Defaults{Height: 128, Width: 128, Steps: 28, Guidance: 3.5, Embedded: c.Guidance, TrueCFG: true},
	}
	a.text.encoders = []encoderPart{{part: "text_encoder", tokenizer: "tokenizer", kind: clipPooled}, {part: "text_encoder_2", tokenizer: "tokenizer_2", kind: t5States, length: length}}
	a.text.join = func(said []encoded) (*Text, error) {
		switch {
		case said[1].width != c.Context:
			return nil, fmt.Errorf("transformer: config.json: joint_attention_dim is %d, but text_encoder_2 gives %d numbers a token", c.Context, said[1].width)
		case len(said[0].pooled) != c.Pooled:
			return nil, fmt.Errorf("transformer: config.json: pooled_projection_dim is %d, but text_encoder gives %d", c.Pooled, len(said[0].pooled))
		}
		return &Text{States: said[1].states, Tokens: said[1].tokens, Width: c.Context, Pooled: said[0].pooled}, nil
	}
	a.network.build = func(p *nn.Params) forward {
		m := flux.New(p, c)
		return func(tp *autograd.Tape, in inputs) *autograd.Value {
			places := flux.Grid(0, in.at.Rows/2, in.at.Cols/2)
			for i, g := range in.grids {
				places = append(places, flux.Grid(i+1, g.rows, g.cols)...)
			}
			return m.Forward(tp, flux.Inputs{Latents: in.latents, Sources: in.sources, Text: in.text, Pooled: in.pooled, Time: sigmasOf(in.times), Guidance: in.guidance,
				Places: places, TextPlaces: flux.Nowhere(in.text.Dim(1))})
		}
	}
	return a, nil
}
