package pipeline

import (
	"fmt"
	"path/filepath"

	"github.com/darkroom-rl/darkroom/diffusion/single"
	"github.com/darkroom-rl/darkroom/diffusion/unet"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/kernels/nn/hub"
	"github.com/darkroom-rl/darkroom/kernels/nn/peft"
)

// Stable Diffusion XL (diffusers' StableDiffusionXLPipeline), sampled by DDIM.
//
// Text is the states before the last layer of two CLIP encoders side by side; pooled is the second
// one's projection. The U-Net also reads the picture's size, three times two numbers: (height, width)
// of the original, (0, 0) for the crop, (height, width) of the target. As upstream's pipeline does by
// default, both sizes are the picture's own.
//
// Where the folder says "force_zeros_for_empty_prompt", the empty text is zeros: upstream's negative
// prompt where none is given.
//
// Invariant (test): texts, steps and pixels are those of upstream's pipeline with DDIMScheduler.

var stableDiffusionXL = Family{
	Class: "StableDiffusionXLPipeline",
	Name:  "Stable Diffusion XL",
	Card:  "A U-Net reads the states of two CLIP encoders, a pooled text and the picture's size; DDIM samples it.",
	Paper: "Podell et al., 2023, arXiv 2307.01952",
	Parts: []string{"unet", "text_encoder", "tokenizer", "text_encoder_2", "tokenizer_2", "vae", "scheduler"},
	Cases: []string{"pipe_sdxl"},
	File:  single.UNet, Kohya: peft.UNet,
	open: openSDXL,
}

func openSDXL(f *folder, _ Options) (*architecture, error) {
	a, c, err := openUNet(f, "StableDiffusionXLPipeline", "text_time", 5)
	if err != nil {
		return nil, err
	}
	if !f.has("text_encoder") {
		return nil, fmt.Errorf("%s: it names no \"text_encoder\": refiners, which have one encoder, are not known", filepath.Join(f.dir, "model_index.json"))
	}
	a.text.encoders = []encoderPart{{part: "text_encoder", tokenizer: "tokenizer", kind: clipBefore}, {part: "text_encoder_2", tokenizer: "tokenizer_2", kind: clipProjected, lengthOf: "tokenizer"}}
	if a.text.emptyIsZero, err = emptyIsZero(f); err != nil {
		return nil, err
	}
	a.text.join = func(said []encoded) (*Text, error) { return joinSDXL(c, said) }
	a.network.build = func(p *nn.Params) forward {
		m := unet.New(p, c)
		return func(tp *autograd.Tape, in inputs) *autograd.Value {
			sizes := make([][]float32, len(in.times))
			for i := range sizes {
				height, width := float32(in.at.Height), float32(in.at.Width)
				sizes[i] = []float32{height, width, 0, 0, height, width}
			}
			return m.Forward(tp, unet.Inputs{Latents: in.latents, Text: in.text, Time: in.times, Pooled: in.pooled, Sizes: sizes})
		}
	}
	return a, nil
}

// emptyIsZero reads the pipeline's setting of that name.
func emptyIsZero(f *folder) (bool, error) {
	var said struct {
		Zeros bool `json:"force_zeros_for_empty_prompt"`
	}
	said.Zeros = true // upstream's default
	err := hub.JSON(filepath.Join(f.dir, "model_index.json"), &said)
	return said.Zeros, err
}

// joinSDXL puts the states of both encoders side by side.
func joinSDXL(c unet.Config, said []encoded) (*Text, error) {
	first, second := said[0], said[1]
	text := &Text{Tokens: first.tokens, Width: first.width + second.width, Pooled: second.pooled}
	switch told := c.AddedIn - 6*c.AddedTime; {
	case text.Width != c.Context:
		return nil, fmt.Errorf("unet: config.json: cross_attention_dim is %d, but the two encoders give %d numbers a token", c.Context, text.Width)
	case first.tokens != second.tokens:
		return nil, fmt.Errorf("the tokenizers make %d and %d tokens of a text; they must be as many", first.tokens, second.tokens)
	case len(text.Pooled) != told:
		return nil, fmt.Errorf("unet: config.json: projection_class_embeddings_input_dim leaves %d numbers for the pooled text, but text_encoder_2 projects to %d", told, len(text.Pooled))
	}
	for t := range first.tokens {
		text.States = append(append(text.States, first.row(t)...), second.row(t)...)
	}
	return text, nil
}
