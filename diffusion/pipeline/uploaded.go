package pipeline

import (
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// uploaded is the batch of texts that a network was last asked with, where it computes. Every step of a
// trajectory asks with the same texts, which are far larger than its latents: SD3's are 4 MB a prompt.
type uploaded struct {
	texts  []*Text
	dtype  kernels.DType
	states *tensor.Tensor
	pooled *tensor.Tensor // nil where the network reads none
}

// on puts a batch of texts on a tape: the one before, if it was the same.
func (u *uploaded) on(tp *autograd.Tape, texts []*Text) (states, pooled *autograd.Value) {
	if !slices.Equal(u.texts, texts) || u.dtype != tp.DType {
		u.free()
		var s, p []float32
		longest := 0
		for _, t := range texts {
			longest = max(longest, t.Tokens)
		}
		for _, t := range texts {
			s, p = append(s, t.States...), append(p, t.Pooled...)
			s = append(s, make([]float32, (longest-t.Tokens)*t.Width)...) // shorter ones are filled up
		}
		u.texts, u.dtype = slices.Clone(texts), tp.DType
		u.states = tp.Pool().FromF32(tp.DType, s, len(texts), longest, texts[0].Width).Named("text")
		if len(p) > 0 {
			u.pooled = tp.Pool().FromF32(tp.DType, p, len(texts), len(texts[0].Pooled)).Named("pooled text")
		}
	}
	if u.pooled != nil {
		pooled = tp.Input(u.pooled)
	}
	return tp.Input(u.states), pooled
}

// free gives the memory back.
func (u *uploaded) free() {
	for _, t := range []*tensor.Tensor{u.states, u.pooled} {
		if t != nil {
			t.Free()
		}
	}
	*u = uploaded{}
}
