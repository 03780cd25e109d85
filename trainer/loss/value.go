package loss

import "math"

// The loss of a value head, and a critic's.

// Value is a critic's loss, ½·max((v - G)², (clip(v, v_old ± range) - G)²), weighed over
// tokens, with the share of tokens whose clipped half was larger.
func Value(v, old, returns, mask [][]float64, clip float64, a Aggregate) (loss float64, grad [][]float64, clipped float64, err error) {
	w, err := a.Weights(mask)
	if err != nil {
		return 0, nil, 0, err
	}
	grad = zeros(v)
	cut := zeros(v)
	for i, row := range v {
		for k, x := range row {
			bound := math.Min(math.Max(x, old[i][k]-clip), old[i][k]+clip)
			plain, bounded := x-returns[i][k], bound-returns[i][k]
			if bounded*bounded > plain*plain {
				loss += float64(w[i][k] * bounded * bounded / 2)
				cut[i][k] = 1
				if bound == x {
					grad[i][k] = w[i][k] * bounded
				}
				continue
			}
			loss += float64(w[i][k] * plain * plain / 2)
			grad[i][k] = w[i][k] * plain
		}
	}
	return loss, grad, maskedMean(cut, mask), nil
}
