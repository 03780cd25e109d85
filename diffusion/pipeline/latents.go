package pipeline

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/diffusion"
	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// Other programs keep latents as [channels, rows, columns]. Networks here read them with channels last,
// or as tokens of 2 x 2 patches. The numbers are the same.
//
// Invariant (test): there and back is the identity, and a case's recorded latents are the network's.

// LatentShape is [channels, rows, columns] of a sample.
func (p *Pipeline) LatentShape(at Shape) []int {
	return []int{p.family.latentChannels, at.Rows, at.Cols}
}

// FromChannelsFirst is a sample's latents as the network reads them.
func (p *Pipeline) FromChannelsFirst(x []float32, at Shape) ([]float64, error) {
	c := p.family.latentChannels
	if len(x) != c*at.Rows*at.Cols {
		return nil, fmt.Errorf("%d numbers; %d channels of %d x %d are %d", len(x), c, at.Rows, at.Cols, c*at.Rows*at.Cols)
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
		for k := range at.Rows * at.Cols {
			out[k*c+i] = float64(x[i*at.Rows*at.Cols+k])
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
	out := make([]float32, len(latents))
	for i := range c {
		for k := range at.Rows * at.Cols {
			out[i*at.Rows*at.Cols+k] = float32(latents[k*c+i])
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
