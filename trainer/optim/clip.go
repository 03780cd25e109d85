package optim

import "math"

// Norm is the length of the whole gradient, over all tensors.
func Norm(grads [][]float64) float64 {
	sum := 0.0
	for _, g := range grads {
		for _, x := range g {
			sum += float64(x * x)
		}
	}
	return math.Sqrt(sum)
}

// ClipScale is what a gradient of some norm is multiplied with so that it is not
// longer than limit: min(1, limit/(norm + 1e-6)), as torch's clip_grad_norm_ has
// it. Limit 0 does not clip.
func ClipScale(norm, limit float64) float64 {
	if limit == 0 {
		return 1
	}
	return min(1, limit/(norm+1e-6))
}

// ClipNorm shortens gradients in place and returns their norm before.
func ClipNorm(grads [][]float64, limit float64) (norm float64) {
	norm = Norm(grads)
	scale := ClipScale(norm, limit)
	for _, g := range grads {
		for i := range g {
			g[i] *= scale
		}
	}
	return norm
}
