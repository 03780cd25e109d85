package mmdit

import (
	"github.com/darkroom-rl/darkroom/kernels/nn"
)

// Positions are a fixed table of sines and cosines over a grid of patches, centred crops of
// which are added to tokens (diffusers' get_2d_sincos_pos_embed, after MAE): the first half
// of a row is made of its x, the second of its y, each as sines then cosines of
//
//	position · base / side / 10000^(i/(width/4)),  base = SampleSize / PatchSize
//
// The hub's folders store the table; this is what a model that we make begins with.

const log10000 = 9.210340371976184

func (c Config) waves() []float32 {
	side, quarter := c.PositionsSide, c.Width()/4
	table := make([]float32, 0, side*side*c.Width())
	base := float64(c.SampleSize / c.PatchSize)
	for y := range side {
		for x := range side {
			row := make([]float32, c.Width())
			for half, at := range []int{x, y} {
				for i := range quarter {
					sin, cos := nn.Sincos(float64(at) / (float64(side) / base) * nn.Exp(-log10000*float64(i)/float64(quarter)))
					row[half*2*quarter+i], row[half*2*quarter+quarter+i] = float32(sin), float32(cos)
				}
			}
			table = append(table, row...)
		}
	}
	return table
}
