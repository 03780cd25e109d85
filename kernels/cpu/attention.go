package cpu

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// Attention computes every query.
func (b *Backend) Attention(a *kernels.Attention) { b.attention.Attention(a, b.pool.run) }

// AttentionBackward computes every gradient.
func (b *Backend) AttentionBackward(a *kernels.AttentionBackward) {
	b.attention.AttentionBackward(a, b.pool.run)
	if !a.DBias.Empty() { // rare: text encoders that are trained
		b.pool.run(a.Q.H, func(h int) { ref.AttentionBackwardBias(a, h, h+1) })
	}
}

// Rope turns every token.
func (b *Backend) Rope(a *kernels.Rope) { b.attention.Rope(a, b.pool.run) }
