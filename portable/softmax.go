package portable

import "math"

// Softmax is e^x over the sum of all e^x, without overflow.
func Softmax[T ~float32 | ~float64](x []T) []float64 {
	most, sum := math.Inf(-1), 0.0
	for _, v := range x {
		most = max(most, float64(v))
	}
	p := make([]float64, len(x))
	for i, v := range x {
		p[i] = Exp(float64(v) - most)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}
