package advantage

import "math"

// Rules of flow_grpo's tracker that look only at who is best.

// Best is 1 for every maximum of its group, else 0 (fine-tuning on the best).
func Best(ids []int, rewards []float64) []float64 {
	out := make([]float64, len(rewards))
	for _, g := range Groups(ids) {
		top := math.Inf(-1)
		for _, i := range present(g, rewards) {
			top = math.Max(top, rewards[i])
		}
		for _, i := range g {
			switch {
			case math.IsNaN(rewards[i]):
				out[i] = math.NaN()
			case rewards[i] == top:
				out[i] = 1
			}
		}
	}
	return out
}

// Ends is +1 for a group's first maximum and -1 for its first minimum; where all are equal
// the first sample is the worst and the second the best.
func Ends(ids []int, rewards []float64) []float64 {
	out := make([]float64, len(rewards))
	for i, r := range rewards {
		if math.IsNaN(r) {
			out[i] = r
		}
	}
	for _, g := range Groups(ids) {
		g = present(g, rewards)
		if len(g) < 2 {
			continue
		}
		high, low := 0, 0
		for k, i := range g {
			if rewards[i] > rewards[g[high]] {
				high = k
			}
			if rewards[i] < rewards[g[low]] {
				low = k
			}
		}
		if high == low {
			high, low = 1, 0
		}
		out[g[high]], out[g[low]] = 1, -1
	}
	return out
}

// PassAtK gives the best of a group its lead over the second, over the deviation (n-1, plus
// eps) where scaled, and everybody else 0.
func PassAtK(ids []int, rewards []float64, scaled bool, eps float64) []float64 {
	out := make([]float64, len(rewards))
	for i, r := range rewards {
		if math.IsNaN(r) {
			out[i] = r
		}
	}
	for _, g := range Groups(ids) {
		g = present(g, rewards)
		if len(g) < 2 {
			continue
		}
		best, second := g[0], -1
		for _, i := range g[1:] {
			if rewards[i] > rewards[best] {
				best, second = i, best
			} else if second < 0 || rewards[i] > rewards[second] {
				second = i
			}
		}
		out[best] = rewards[best] - rewards[second]
		if scaled {
			out[best] /= deviation(pick(rewards, g), 1) + eps
		}
	}
	return out
}

func sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}

// Probability is DiffusionNFT's transform of advantages to probabilities of being optimal:
// cut to ±clip, then by mode, then (a/clip + 1)/2 cut to [0, 1].
func Probability(advantages []float64, clip float64, mode string) []float64 {
	out := make([]float64, len(advantages))
	for i, a := range advantages {
		a = math.Min(math.Max(a, -clip), clip)
		switch mode {
		case "positive_only":
			a = math.Max(a, 0)
		case "negative_only":
			a = math.Min(a, 0)
		case "one_only":
			a = math.Max(sign(a), 0)
		case "binary":
			a = sign(a)
		}
		out[i] = math.Min(math.Max(a/clip/2+0.5, 0), 1)
	}
	return out
}
