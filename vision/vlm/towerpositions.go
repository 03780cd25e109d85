package vlm

import (
	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/autograd"
)

// Card: a square table of positions, resampled to a picture's grid by bilinear interpolation
// with aligned corners: patch i of n stands at i (side-1) / max(n-1, 1) of the table's rows.
// Source: transformers, get_vision_interpolation_indices_and_weights. The interpolation is a
// product of weights [patches, side side], four of a row not zero, with the table.

// interpolated are the weights of the table's rows for every patch, in the layers' order.
func (t *Tower) interpolated(tp *autograd.Tape, grids []Grid, o order) *autograd.Value {
	side := t.side()
	weights := make([]float32, len(o.rows)*t.Side)
	at := 0
	for _, g := range grids {
		rows, columns := taps(g.Rows, side), taps(g.Columns, side)
		for range g.Patches() {
			p := o.places[o.rows[at]]
			w := weights[at*t.Side:][:t.Side]
			for _, y := range rows[p.Row] {
				for _, x := range columns[p.Column] {
					w[y.at*side+x.at] += float32(y.weight * x.weight)
				}
			}
			at++
		}
	}
	pool := tp.Pool()
	u := pool.FromF32(kernels.F32, weights, 1, len(o.rows), t.Side)
	defer u.Free()
	return tp.Input(u)
}

// tap is a share of a row of a table.
type tap struct {
	at     int
	weight float32
}

// taps are the two rows that each of n places lies between.
func taps(n, side int) [][2]tap {
	all := make([][2]tap, n)
	for i := range all {
		src := float32(i*(side-1)) / float32(max(n-1, 1))
		low := int(src)
		part := src - float32(low)
		all[i] = [2]tap{{min(low, side-1), 1 - part}, {min(low+1, side-1), part}}
	}
	return all
}
