package loss

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// What comes out of a language model's head, and a critic's.

// LogProb is logit[label] - logsumexp, and its gradient by the logits times g.
func LogProb(logits []float64, label int, g float64) (lp float64, grad []float64) {
	p, lse := softmax(logits)
	grad = make([]float64, len(logits))
	for i, q := range p {
		grad[i] = -g * q
	}
	grad[label] += g
	return logits[label] - lse, grad
}

// Entropy is logsumexp - Σ p·logit, and its gradient by the logits times g.
func Entropy(logits []float64, g float64) (h float64, grad []float64) {
	p, lse := softmax(logits)
	mean := 0.0
	for i, q := range p {
		mean += float64(q * logits[i])
	}
	grad = make([]float64, len(logits))
	for i, q := range p {
		grad[i] = -g * q * (logits[i] - mean)
	}
	return lse - mean, grad
}

func softmax(x []float64) (p []float64, lse float64) {
	top := math.Inf(-1)
	for _, v := range x {
		top = math.Max(top, v)
	}
	total := 0.0
	p = make([]float64, len(x))
	for i, v := range x {
		p[i] = portable.Exp(v - top)
		total += p[i]
	}
	for i := range p {
		p[i] /= total
	}
	return p, top + portable.Log(total)
}

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
