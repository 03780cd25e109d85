package advantage

import (
	"math"
	"slices"
)

// ExpectedBest is the mean of the best of k samples of a prompt, over all choices of k among its n, and over groups
// of at least k:
//
//	E = Σ_i C(i-1, k-1)/C(n, k) r_(i)      with r_(1) <= r_(2) <= ...
//
// the estimator of pass@k (Chen et al., 2021) for rewards of any size. Where the mean rises and
// this does not, training has made samples alike rather than better. Missing rewards are left out.
//
// Invariant (tests): k = 1 is the mean, k = n the largest, and it never falls as k grows.
func ExpectedBest(groups [][]float64, k int) float64 {
	sum, n := 0.0, 0.0
	for _, g := range groups {
		there := slices.DeleteFunc(slices.Clone(g), math.IsNaN)
		if len(there) >= k && k > 0 {
			slices.Sort(there)
			sum, n = sum+expectedBest(there, k), n+1
		}
	}
	return sum / n
}

// expectedBest is of one group, in ascending order. The share of choices whose best is the i-th
// follows from that of the one above it.
func expectedBest(r []float64, k int) float64 {
	n := len(r)
	share, sum := float64(k)/float64(n), 0.0
	for i := n; i >= k; i-- {
		sum += float64(share * r[i-1])
		share *= float64(i-k) / float64(max(i-1, 1))
	}
	return sum
}
