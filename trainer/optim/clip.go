package optim

// ClipScale is what a gradient of some norm is multiplied with so that it is not
// longer than limit: min(1, limit/(norm + 1e-6)), as torch's clip_grad_norm_ has
// it. Limit 0 does not clip.
func ClipScale(norm, limit float64) float64 {
	if limit == 0 {
		return 1
	}
	return min(1, limit/(norm+1e-6))
}
