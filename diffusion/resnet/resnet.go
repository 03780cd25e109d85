// Package resnet is the residual blocks over pictures that U-Nets and autoencoders are made
// of, with diffusers' parameter names. Pictures are [B, H, W, C].
package resnet

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// Block is x + conv(silu(norm(conv(silu(norm(x))) + time))), with a 1x1 convolution of x where
// the channels change.
type Block struct {
	norm1, norm2           *nn.GroupNorm
	conv1, conv2, shortcut *nn.Conv
	time                   *nn.Linear // nil: no time
}

// New asks p for a block's parameters; time is the length of the time's embedding, 0 for
// none.
func New(p *nn.Params, in, out, time, groups int, eps float32) *Block {
	b := &Block{norm1: p.GroupNorm("norm1", in, groups, eps), conv1: p.Conv("conv1", nn.Square(in, out, 3, 1, 1), true),
		norm2: p.GroupNorm("norm2", out, groups, eps), conv2: p.Conv("conv2", nn.Square(out, out, 3, 1, 1), true)}
	if time > 0 {
		b.time = p.Linear("time_emb_proj", time, out, true)
	}
	if in != out {
		b.shortcut = p.Conv("conv_shortcut", nn.Square(in, out, 1, 1, 0), true)
	}
	return b
}

// Apply computes the block; time is the embedding after its activation, or nil.
func (b *Block) Apply(tp *autograd.Tape, x, time *autograd.Value) *autograd.Value {
	h := b.norm1.Apply(tp, x, kernels.SiLU)
	y := b.conv1.Apply(tp, h, nil)
	tp.Release(h)
	if b.time != nil {
		z := tp.AddSample(y, b.time.Apply(tp, time, autograd.With{}))
		tp.Release(y)
		y = z
	}
	g := b.norm2.Apply(tp, y, kernels.SiLU)
	tp.Release(y)
	if b.shortcut != nil {
		x = b.shortcut.Apply(tp, x, nil)
	}
	z := b.conv2.Apply(tp, g, x)
	tp.Release(g)
	return z
}

// Up asks for a layer that doubles a picture and convolves it.
func Up(p *nn.Params, channels int) *nn.Conv {
	return p.Conv("upsamplers.0.conv", nn.Square(channels, channels, 3, 1, 1), true)
}

// Double does as Up's layer.
func Double(tp *autograd.Tape, conv *nn.Conv, x *autograd.Value) *autograd.Value {
	big := tp.Upsample(x, 2)
	defer tp.Release(big)
	return conv.Apply(tp, big, nil)
}
