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
// Text is the last states of Qwen2.5-VL, which reads the prompt in a template and, of edits, the pictures; the
// template's first tokens are dropped. Texts have lengths of their own. Latents are packed. The network's input is
// sigma. Guidance combines two outputs, and the result keeps the length of the conditional one, token by token. The
// grid of sigmas is 1, ..., 1/n, shifted by the number of tokens and stretched to the folder's last one. The pictures
// of edits: sources.go.
//
// Invariant (test): texts, steps and pixels are those of upstream's pipelines.

// Templates of prompts.
const (
	qwenDescribe = "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, " +
		"spatial relationships of the objects and background:<|im_end|>\n<|im_start|>user\n"
	qwenEditing = "<|im_start|>system\nDescribe the key features of the input image (color, shape, size, texture, objects, background), " +
		"then explain how the user's text instruction should alter or modify the image. Generate a new image that meets the user's " +
		"requirements while maintaining consistency with the original input where appropriate.<|im_end|>\n<|im_start|>user\n"
	qwenAnswer  = "<|im_end|>\n<|im_start|>assistant\n"
	qwenPicture = "<|vision_start|><|image_pad|><|vision_end|>"
)

var qwenImage = Family{
	Class: "QwenImagePipeline",
	Name:  "Qwen-Image",
	Card:  "A multimodal transformer over packed latents reads Qwen2.5-VL's states of the prompt in a template.",
	Paper: "Wu et al., 2025, arXiv 2508.02324",
	Parts: []string{"transformer", "text_encoder", "tokenizer", "vae", "scheduler"},
	Cases: []string{"pipe_qwen_image"},

	Shared: true,
	open: func(f *folder, o Options) (*architecture, error) {
		return openQwen(f, o, promptForm{before: qwenDescribe, after: qwenAnswer, drop: 34}, pictureSpec{})
	},
}

var qwenEdit = Family{
	Class: "QwenImageEditPipeline",
	Name:  "Qwen-Image-Edit",
	Card:  "Qwen-Image that also reads the tokens of one picture, which its text encoder sees.",
	Paper: qwenImage.Paper,
	Parts: append([]string{"processor"}, qwenImage.Parts...),
	Cases: []string{"pipe_qwen_image_edit"},

	Shared: true,
	open: func(f *folder, o Options) (*architecture, error) {
		form := promptForm{before: qwenEditing, picture: func(int) string { return qwenPicture }, after: qwenAnswer, drop: 64}
		return openQwen(f, o, form, pictureSpec{read: besideTokens, sources: &sourceRules{most: 1, must: true, size: EditSize(1024 * 1024), follows: true}})
	},
}

var qwenEditPlus = Family{
	Class: "QwenImageEditPlusPipeline",
	Name:  "Qwen-Image-Edit-2509",
	Card:  "Qwen-Image-Edit of several pictures, which its text encoder sees smaller.",
	Paper: qwenImage.Paper,
	Parts: qwenEdit.Parts,
	Cases: []string{"pipe_qwen_image_edit_plus"},

	Shared: true,
	open: func(f *folder, o Options) (*architecture, error) {
		form := promptForm{before: qwenEditing, picture: func(i int) string { return fmt.Sprintf("Picture %d: %s", i+1, qwenPicture) }, after: qwenAnswer, drop: 64}
		return openQwen(f, o, form, pictureSpec{read: besideTokens, sources: &sourceRules{most: mostSources, must: true, size: EditSize(1024 * 1024), sight: EditSize(384 * 384), follows: true}})
	},
}

func openQwen(f *folder, o Options, form promptForm, pictures pictureSpec) (*architecture, error) {
	c, err := readConfig(f, "transformer", qwenimage.ReadConfig)
	if err != nil {
		return nil, err
	}
	if c.PatchSize != 2 || c.In != 4*c.Out {
		return nil, fmt.Errorf("transformer: config.json: patches of %d x %d, %d channels in and %d out: packed latents have patches of 2 x 2, and 4 channels in for each that comes out", c.PatchSize, c.PatchSize, c.In, c.Out)
	}
	length, err := o.promptLength()
	if err != nil {
		return nil, err
	}
	a := &architecture{
		network:  networkSpec{parts: []string{"transformer"}, targets: attention("attn."), heads: c.Heads},
		latents:  packedLatents(c.Out),
		schedule: scheduleSpec{flow: true, base: sde.DownFromOne},
		pictures: pictures,
		defaults: Defaults{Height: 1024, Width: 1024, Pixels: true, Steps: 50, Guidance: 4, Norm: true},
	}
	a.text = textSpec{
		encoders: []encoderPart{{part: "text_encoder", tokenizer: "tokenizer", kind: promptStates, length: length, form: form}},
		join:     statesOnly("transformer: config.json: joint_attention_dim", c.Context),
		ragged:   true,
	}
	a.network.build = func(p *nn.Params) forward {
		m := qwenimage.New(p, c)
		return func(tp *autograd.Tape, in inputs) *autograd.Value {
			pictures := []qwenimage.Picture{{Rows: in.at.Rows / 2, Cols: in.at.Cols / 2}}
			for _, g := range in.grids {
				pictures = append(pictures, qwenimage.Picture{Rows: g.rows, Cols: g.cols})
			}
			return m.Forward(tp, qwenimage.Inputs{Latents: in.latents, Sources: in.sources, Text: in.text, Words: in.words, Time: sigmasOf(in.times), Pictures: pictures})
		}
	}
	return a, nil
}
