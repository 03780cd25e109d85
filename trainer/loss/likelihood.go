package loss

// Card: supervised fine-tuning of tokens, -log p of each one that is trained, averaged as Aggregate
// says: token-mean is transformers' cross entropy over all trained tokens of the batch, whatever
// rows they lie in. Golden: sft.loss.

// Likelihood is the loss, and its gradient at the log-probabilities.
func Likelihood(logProb, mask [][]float64, a Aggregate) (value float64, grad [][]float64, err error) {
	w, err := a.Weights(mask)
	if err != nil {
		return 0, nil, err
	}
	grad = zeros(logProb)
	for i, row := range logProb {
		for k, lp := range row {
			if w[i][k] == 0 {
				continue
			}
			value -= float64(lp * w[i][k])
			grad[i][k] = -w[i][k]
		}
	}
	return value, grad, nil
}
