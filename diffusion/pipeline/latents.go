package pipeline

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/diffusion"
	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// Other programs keep latents as [channels, rows, columns], of clips [channels, frames, rows, columns]. Networks here
// read them with channels last, or as tokens of 2 x 2 patches. The numbers are the same.
//
// Invariant (test): there and back is the identity, and a case's recorded latents are the network's.

// LatentShape is [channels, rows, columns] of a sample; a clip's has frames after the channels.
func (p *Pipeline) LatentShape(at Shape) []int {
	if at.Times > 0 {
		return []int{p.family.latentChannels, at.Times, at.Rows, at.Cols}
	}
	return []int{p.family.latentChannels, at.Rows, at.Cols}
}

// FromChannelsFirst is a sample's latents as the network reads them.
func (p *Pipeline) FromChannelsFirst(x []float32, at Shape) ([]float64, error) {
	c, each := p.family.latentChannels, max(1, at.Times)*at.Rows*at.Cols
	if len(x) != c*each {
		return nil, fmt.Errorf("%d numbers; latents of %v are %d", len(x), p.LatentShape(at), c*each)
	}
	for _, v := range x {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("it holds %v", v)
		}
	}
	if p.family.packed {
		tokens, _, err := diffusion.Pack(widened(x), c, at.Rows, at.Cols)
		return tokens, err
	}
	out := make([]float64, len(x))
	for i := range c {
		for k := range each {
			out[k*c+i] = float64(x[i*each+k])
		}
	}
	return out, nil
}

// ChannelsFirst is the other way.
func (p *Pipeline) ChannelsFirst(latents []float64, at Shape) []float32 {
	c := p.family.latentChannels
	if p.family.packed {
		return narrowed(diffusion.Unpack(latents, c, at.Rows, at.Cols))
	}
	out, each := make([]float32, len(latents)), len(latents)/c
	for i := range c {
		for k := range each {
			out[i*each+k] = float32(latents[k*c+i])
		}
	}
	return out
}

// Noise is standard normal numbers, one for each of a sample's latents.
func Noise(key rng.Key, at Shape) []float64 {
	z := make([]float32, at.Len())
	key.Normal(z, 0)
	return widened(z)
}
