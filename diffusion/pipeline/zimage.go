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
// Text is the states before Qwen3's last layer, of the prompt in its form of a conversation. The network is told
// the clean share, 1 - sigma, and its output's sign is turned. Upstream's guidance g is c + g·(c - u), which
// is our scale g + 1; Turbo is sampled with none, which is 1 here. The grid of sigmas is PyTorch's
// 1, ..., 1/n, shifted.
//
// Invariant (test): texts, steps and pixels are those of upstream's pipeline.

func openZImage(f *folder, o Options) (*family, error) {
	c, err := readConfig(f, "transformer", zimage.ReadConfig)
	if err != nil {
		return nil, err
	}
	length := 512
	if o.TextLength != 0 {
		length = o.TextLength
	}
	if length < 1 || length > longestPrompt {
		return nil, fmt.Errorf("a prompt of %d tokens: 1 to %d are possible", length, longestPrompt)
	}
	form := promptForm{before: "<|im_start|>user\n", after: qwenAnswer, read: func(layers int) []int { return []int{layers - 1} }}
	fam := &family{component: "transformer", targets: []string{"to_q", "to_k", "to_v", "to_out.0"}, flow: true, negated: true, latentChannels: c.In, patch: c.Patch(), ragged: true,
		encoders: []encoderPart{{part: "text_encoder", tokenizer: "tokenizer", kind: promptStates, length: length, form: form}},
		side:     func(factor int) int { return c.Patch() * factor },
		most:     func(factor int) int { return c.Patch() * factor * min(c.Longest[1], c.Longest[2]) },
		defaults: Defaults{Height: 1024, Width: 1024, Pixels: true, Steps: 50, Guidance: 6},
		base:     downFromOne32,
	}
	fam.join = func(said []encoded) (*Text, error) {
		switch {
		case said[0].width != c.Caption:
			return nil, fmt.Errorf("transformer: config.json: cap_feat_dim is %d, but text_encoder gives %d numbers a token", c.Caption, said[0].width)
		case !c.Fits(1, 1, said[0].tokens):
			return nil, fmt.Errorf("transformer: config.json: axes_lens %v: a prompt of %d tokens has no places", c.Longest, said[0].tokens)
		}
		return &Text{States: said[0].states, Tokens: said[0].tokens, Width: c.Caption}, nil
	}
	fam.build = func(p *nn.Params) forward {
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
	return fam, nil
}

// downFromOne32 is the sigmas 1, ..., 1/n in fp32 from the first.
func downFromOne32(steps int) []float64 {
	var s []float64
	for _, v := range sde.Linspace32(1, float32(1/float64(steps)), steps) {
		s = append(s, float64(v))
	}
	return s
}
