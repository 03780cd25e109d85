package pipeline

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/diffusion/qwenimage"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/sde"
)

// Qwen-Image, Qwen-Image-Edit and Edit-Plus (diffusers' QwenImagePipeline, QwenImageEditPipeline and
// QwenImageEditPlusPipeline).
//
// Text is the last states of Qwen2.5-VL, which reads the prompt in a template and, of edits, the pictures;
// the template's first tokens are dropped. Texts have lengths of their own. Latents are packed. The network
// is told sigma. Guidance combines two outputs, and the result keeps the length of the conditional one, token by
// token. The grid of sigmas is 1, ..., 1/n, shifted by the number of tokens and stretched to the folder's
// last one. What edits are made of: sources.go.
//
// Invariant (test): texts, steps and pixels are those of upstream's pipelines.

// Templates of prompts.
const (
	qwenDescribe = "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, " +
		"spatial relationships of the objects and background:<|im_end|>\n<|im_start|>user\n"
	qwenEdit = "<|im_start|>system\nDescribe the key features of the input image (color, shape, size, texture, objects, background), " +
		"then explain how the user's text instruction should alter or modify the image. Generate a new image that meets the user's " +
		"requirements while maintaining consistency with the original input where appropriate.<|im_end|>\n<|im_start|>user\n"
	qwenAnswer  = "<|im_end|>\n<|im_start|>assistant\n"
	qwenPicture = "<|vision_start|><|image_pad|><|vision_end|>"
)

func openQwen(f *folder, o Options) (*family, error) {
	return qwenFamily(f, o, promptForm{before: qwenDescribe, after: qwenAnswer, drop: 34})
}

func openQwenEdit(f *folder, o Options) (*family, error) {
	form := promptForm{before: qwenEdit, picture: func(int) string { return qwenPicture }, after: qwenAnswer, drop: 64}
	fam, err := qwenFamily(f, o, form)
	if err != nil {
		return nil, err
	}
	fam.reads, fam.sources = besideTokens, &sourceRules{most: 1, must: true, size: EditSize(1024 * 1024), follows: true}
	return fam, nil
}

func openQwenEditPlus(f *folder, o Options) (*family, error) {
	form := promptForm{before: qwenEdit, picture: func(i int) string { return fmt.Sprintf("Picture %d: %s", i+1, qwenPicture) }, after: qwenAnswer, drop: 64}
	fam, err := qwenFamily(f, o, form)
	if err != nil {
		return nil, err
	}
	fam.reads, fam.sources = besideTokens, &sourceRules{most: mostSources, must: true, size: EditSize(1024 * 1024), sight: EditSize(384 * 384), follows: true}
	return fam, nil
}

func qwenFamily(f *folder, o Options, form promptForm) (*family, error) {
	c, err := readConfig(f, "transformer", qwenimage.ReadConfig)
	if err != nil {
		return nil, err
	}
	if c.PatchSize != 2 || c.In != 4*c.Out {
		return nil, fmt.Errorf("transformer: config.json: patches of %d x %d, %d channels in and %d out: packed latents have patches of 2 x 2, and 4 channels in for each that comes out", c.PatchSize, c.PatchSize, c.In, c.Out)
	}
	length := 512
	if o.TextLength != 0 {
		length = o.TextLength
	}
	if length < 1 || length > longestPrompt {
		return nil, fmt.Errorf("a prompt of %d tokens: 1 to %d are possible", length, longestPrompt)
	}
	fam := &family{component: "transformer", targets: []string{"attn.to_q", "attn.to_k", "attn.to_v", "attn.to_out.0"}, flow: true, latentChannels: c.Out, packed: true, patch: 2, ragged: true,
		encoders: []encoderPart{{part: "text_encoder", tokenizer: "tokenizer", kind: promptStates, length: length, form: form}},
		side:     func(factor int) int { return 2 * factor },
		most:     func(int) int { return 0 },
		defaults: Defaults{Height: 1024, Width: 1024, Pixels: true, Steps: 50, Guidance: 4, Norm: true},
		base:     sde.DownFromOne,
	}
	fam.join = func(said []encoded) (*Text, error) {
		if said[0].width != c.Context {
			return nil, fmt.Errorf("transformer: config.json: joint_attention_dim is %d, but text_encoder gives %d numbers a token", c.Context, said[0].width)
		}
		return &Text{States: said[0].states, Tokens: said[0].tokens, Width: c.Context}, nil
	}
	fam.build = func(p *nn.Params) forward {
		m := qwenimage.New(p, c)
		return func(tp *autograd.Tape, in inputs) *autograd.Value {
			pictures := []qwenimage.Picture{{Rows: in.at.Rows / 2, Cols: in.at.Cols / 2}}
			for _, g := range in.grids {
				pictures = append(pictures, qwenimage.Picture{Rows: g.rows, Cols: g.cols})
			}
			return m.Forward(tp, qwenimage.Inputs{Latents: in.latents, Sources: in.sources, Text: in.text, Words: in.words, Time: sigmasOf(in.times), Pictures: pictures})
		}
	}
	return fam, nil
}

// longestPrompt is more tokens than upstream lets Qwen's text encoders read.
const longestPrompt = 1024

// sigmasOf is a flow's sigmas of its timesteps.
func sigmasOf(times []float32) []float32 {
	sigmas := make([]float32, len(times))
	for i, t := range times {
		sigmas[i] = t / 1000
	}
	return sigmas
}
