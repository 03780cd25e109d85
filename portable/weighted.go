package portable

import "slices"

// Weighted draws n places without replacement, each with probability in proportion to its weight
// among those that are left; u are n drawn numbers in [0, 1). Places without weight are never
// drawn, so there may be fewer. Only sums and products decide, so that every machine draws the same.
func Weighted(u, weights []float64, n int) []int {
	var drawn []int
	left := slices.Clone(weights)
	for _, v := range u[:min(n, len(u))] {
		total := 0.0
		for _, w := range left {
			total += w
		}
		at, last, sum := v*total, -1, 0.0
		for i, w := range left {
			if w <= 0 {
				continue
			}
			last, sum = i, sum+w
			if sum > at {
				break
			}
		}
		if last < 0 {
			break
		}
		drawn, left[last] = append(drawn, last), 0
	}
	return drawn
}
