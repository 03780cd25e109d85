package loss

import "math"

// DGPO (direct group preference optimisation, as Flow-Factory has it): with d the
// flow-matching error of a sample and S the sum over its group of A·β·(d - d_ref)/group size,
// without gradient,
//
//	L = mean of σ(S)·A·d
//
// With Clip a sample gets no gradient if exp(d_old - d) has left [1-Low, 1+High] in the
// direction of its advantage. The loss's value stays.
type DGPO struct {
	Beta      float64 `toml:"beta" range:"(0,inf)" doc:"how far the implicit policies lie apart"`
	GroupSize int     `toml:"-"`
	Clip      bool    `toml:"clip" doc:"leave samples out that have moved far"`
	Low       float64 `toml:"clip_low" range:"[0,inf)" doc:"how far a ratio may fall below 1"`
	High      float64 `toml:"clip_high" range:"[0,inf)" doc:"how far a ratio may rise above 1"`
}

// Of is the objective.
func (o DGPO) Of(t Noised, advantages []float64, ids []int) (loss float64, grad [][]float64) {
	grad = zeros(t.V)
	err := func(i int, v []float64) (d float64) {
		for e := range v {
			diff := v[e] - t.target(i, e)
			d += diff * diff / float64(len(v))
		}
		return d
	}
	sums, d := map[int]float64{}, make([]float64, len(t.V))
	for i, v := range t.V {
		d[i] = err(i, v)
		sums[ids[i]] += advantages[i] * o.Beta * (d[i] - err(i, t.VRef[i])) / float64(o.GroupSize)
	}
	for i, v := range t.V {
		w := sigmoid(sums[ids[i]]) * advantages[i] / float64(len(t.V))
		loss += w * d[i]
		if o.Clip {
			ratio := math.Exp(err(i, t.VOld[i]) - d[i])
			if advantages[i] > 0 && ratio > 1+o.High || advantages[i] <= 0 && ratio < 1-o.Low {
				continue
			}
		}
		for e := range v {
			grad[i][e] = w * 2 * (v[e] - t.target(i, e)) / float64(len(v))
		}
	}
	return loss, grad
}
