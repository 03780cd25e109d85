package loss

// WeightedFlow is flow matching with a weight a sample: mean of A·(v - target)² over
// everything, target the velocity e - x0 of a flow, or what a ladder's network predicts. The weight is 1 for
// fine-tuning, 1 or 0 for the best of a group, the reward for reward-weighted regression.
func WeightedFlow(t Noised, weights []float64) (loss float64, grad [][]float64) {
	grad = AddWeightedFlow(&loss, t, weights, len(t.V))
	return loss, grad
}

// AddWeightedFlow adds rows to a loss, of so many in all, and is the gradient at their outputs.
func AddWeightedFlow(loss *float64, t Noised, weights []float64, rows int) (grad [][]float64) {
	grad = zeros(t.V)
	for i, v := range t.V {
		n := float64(len(v) * rows)
		for e := range v {
			d := v[e] - t.target(i, e)
			*loss += weights[i] * d * d / n
			grad[i][e] = 2 * weights[i] * d / n
		}
	}
	return grad
}
