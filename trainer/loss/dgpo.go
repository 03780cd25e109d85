package loss

import "github.com/darkroom-rl/darkroom/portable"

// DGPO (direct group preference optimisation, as Flow-Factory has it): with d the
// flow-matching error of a sample and S the sum over its group of A·β·(d - d_ref)/group size,
// without gradient,
//
//	L = mean of σ(S)·A·d
//
// With ClipFar a sample gets no gradient if exp(d_old - d) has left [1-low, 1+high] of Clipping in
// the direction of its advantage. The loss's value stays.
type DGPO struct {
	Clipping
	DGPOOptions
	Beta      float64 // how far the implicit policies lie apart
	GroupSize int
}

// DGPOOptions are the options that DGPO alone has.
type DGPOOptions struct {
	ClipFar bool `toml:"clip_far" doc:"of dgpo: samples that left the clip range get no gradient"`
}

// Of is the objective.
func (o DGPO) Of(t Noised, advantages []float64, ids []int) (loss float64, grad [][]float64) {
	grad = o.Add(&loss, t, advantages, ids, len(t.V))
	return loss, grad
}

// Add adds rows to a loss, of `rows` in all, and is the gradient at their outputs. Those of a group come together.
func (o DGPO) Add(loss *float64, t Noised, advantages []float64, ids []int, rows int) (grad [][]float64) {
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
	low, high := o.Bounds()
	for i, v := range t.V {
		w := sigmoid(sums[ids[i]]) * advantages[i] / float64(rows)
		*loss += float64(w * d[i])
		if o.ClipFar {
			ratio := portable.Exp(err(i, t.VOld[i]) - d[i])
			if advantages[i] > 0 && ratio > 1+high || advantages[i] <= 0 && ratio < 1-low {
				continue
			}
		}
		for e := range v {
			grad[i][e] = w * 2 * (v[e] - t.target(i, e)) / float64(len(v))
		}
	}
	return grad
}

// noisedDGPO is DGPO.
func noisedDGPO(options Options, group int) NoisedLoss {
	o := options.DGPO(group)
	return func(times int, groups []int, advantages []float64) Walk {
		var v WalkResult
		return Walk{
			Next: func(n Noised) ([][]float64, error) {
				var rows []int // a time of a prompt is a group of its own
				for row := range n.V {
					rows = append(rows, groups[row%len(groups)]*(len(n.V)/len(groups))+row/len(groups))
				}
				return o.Add(&v.Loss, n, repeated(advantages, len(n.V)), rows, times*len(groups)), nil
			},
			Result: func() WalkResult { return v },
		}
	}
}

// DGPO is the objective of the options.
func (o Options) DGPO(group int) DGPO {
	return DGPO{Clipping: o.Clipping, DGPOOptions: o.DGPOOptions, Beta: o.Beta, GroupSize: group}
}

// DGPOObjective is direct group preference optimisation.
var DGPOObjective = Objective{
	Name: "dgpo", Card: "Preference of a group's better samples over its worse (Direct Group Preference Optimization).",
	Paper: "Direct Group Preference Optimization (Flow-Factory)", Formula: "σ(Σ over the group of A·β·(d - d_ref)/size)·A·d", Cases: []string{"loss.dgpo"},
	Pictures: &Form{
		Learns: NoisedSamples, Needs: Advantages | Reference,
		Options: struct {
			ClipBounds
			Forward
			ImplicitOptions
			DGPOOptions
		}{},
		Words:  betaWords,
		Noised: noisedDGPO,
	},
}
