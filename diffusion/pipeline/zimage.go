package pipeline

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/diffusion/zimage"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
	"github.com/darkroom-rl/darkroom/sde"
)

// Z-Image and Z-Image-Turbo (diffusers' ZImagePipeline).
//
// Text is the states before Qwen3's last layer, of the prompt in its form of a conversation. The network's input is
// the clean share, 1 - sigma, and its output's sign is turned. Upstream's guidance g is c + g·(c - u), which is our
// scale g + 1; Turbo is sampled with none, which is 1 here. The grid of sigmas is PyTorch's 1, ..., 1/n, shifted.
//
// Invariant (test): texts, steps and pixels are those of upstream's pipeline.

var zImage = Family{
	Class: "ZImagePipeline",
	Name:  "Z-Image and Z-Image-Turbo",
	Card:  "A transformer of one stream reads Qwen3's states before the last layer; its time is the clean share.",
	Paper: "Z-Image Team, 2025, arXiv 2511.22699",
	Parts: []string{"transformer", "text_encoder", "tokenizer", "vae", "scheduler"},
	Cases: []string{"pipe_z_image"},
	open:  openZImage,
}

func openZImage(f *folder, o Options) (*architecture, error) {
	c, err := readConfig(f, "transformer", zimage.ReadConfig)
	if err != nil {
		return nil, err
	}
	length, err := o.promptLength()
	if err != nil {
		return nil, err
	}
	form := promptForm{before: "<|im_start|>user\n", after: qwenAnswer, read: func(layers int) []int { return []int{layers - 1} }}
	a := &architecture{
		network:  networkSpec{parts: []string{"transformer"}, targets: attention(""), negated: true},
		latents:  latentSpec{channels: c.In, patch: c.Patch(), unit: c.Patch(), most: c.Patch() * min(c.Longest[1], c.Longest[2])},
		schedule: scheduleSpec{flow: true, base: downFromOne32},
		defaults: Defaults{Height: 1024, Width: 1024, Pixels: true, Steps: 50, Guidance: 6},
	}
	states := statesOnly("transformer: config.json: cap_feat_dim", c.Caption)
	a.text = textSpec{
		encoders: []encoderPart{{part: "text_encoder", tokenizer: "tokenizer", kind: promptStates, length: length, form: form}},
		ragged:   true,
	}
	a.text.join = func(said []encoded) (*Text, error) {
		text, err := states(said)
		if err == nil && !c.Fits(1, 1, text.Tokens) {
			return nil, fmt.Errorf("transformer: config.json: axes_lens %v: a prompt of %d tokens has no places", c.Longest, text.Tokens)
		}
		return text, err
	}
	a.network.build = func(p *nn.Params) forward {
		m := zimage.New(p, c)
		return func(tp *autograd.Tape, in inputs) *autograd.Value {
			return tp.Concat(0, tp.Each(len(in.words), func(i int) *autograd.Value {
				x, text := tp.Part(in.latents, i, i+1), tp.Part(in.text, i, i+1)
				if words := int(in.words[i]); words < text.Dim(1) {
					text = tp.Split(text, 1, words, text.Dim(1)-words)[0]
				}
				return m.Forward(tp, x, text, 1-in.times[i]/1000)
			})...)
		}
	}
	return a, nil
}

// downFromOne32 is the sigmas 1, ..., 1/n in fp32 from the first.
func downFromOne32(steps int) []float64 {
	var s []float64
	for _, v := range sde.Linspace32(1, float32(1/float64(steps)), steps) {
		s = append(s, float64(v))
	}
	return s
}
