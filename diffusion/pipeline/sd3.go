package pipeline

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/diffusion/mmdit"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// Stable Diffusion 3 and 3.5 (diffusers' StableDiffusion3Pipeline).
//
// Text is the states before the last layer of two CLIP encoders side by side, filled up
// with zeros to the joint width, then the states of T5, which sees its padding too; pooled
// are the two projections. Without a third encoder its states are zeros, as many as it
// would have read. The network is told 1000·sigma.

func openSD3(f *folder, o Options) (*family, error) {
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
	return sd3Family(c, length, f.has("text_encoder_3")), nil
}

// sd3Family is the family for a network; T5's length is that of zeros where there is no third encoder.
func sd3Family(c mmdit.Config, length int, third bool) *family {
	fam := &family{component: "transformer", targets: []string{"attn.to_q", "attn.to_k", "attn.to_v", "attn.to_out.0"}, flow: true, latentChannels: c.In, patch: c.PatchSize,
		encoders: []encoderPart{{part: "text_encoder", tokenizer: "tokenizer", kind: clipProjected}, {part: "text_encoder_2", tokenizer: "tokenizer_2", kind: clipProjected, lengthOf: "tokenizer"}},
		side:     func(factor int) int { return factor * c.PatchSize },
		most:     func(factor int) int { return factor * c.PatchSize * c.PositionsSide },
		defaults: Defaults{Height: c.SampleSize, Width: c.SampleSize, Steps: 28, Guidance: 7},
	}
	if fam.zeros = !third; third {
		fam.encoders = append(fam.encoders, encoderPart{part: "text_encoder_3", tokenizer: "tokenizer_3", kind: t5States, length: length})
	}
	fam.join = func(said []encoded) (*Text, error) {
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
	fam.build = func(p *nn.Params) forward {
		m := mmdit.New(p, c)
		return func(tp *autograd.Tape, in inputs) *autograd.Value {
			return m.Forward(tp, in.latents, in.text, in.pooled, in.times)
		}
	}
	return fam
}
