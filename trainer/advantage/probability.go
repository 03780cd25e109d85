package advantage

import "math"

// Probability is DiffusionNFT's transform of advantages to probabilities that a sample is
// optimal (Zheng et al., 2025): cut to ±clip, then by mode, then (a/clip + 1)/2 cut to
// [0, 1].
//
//	all            as they are
//	positive_only  those below 0 become 0
//	negative_only  those above 0 become 0
//	one_only       1 above 0, else 0
//	binary         the sign
//
// The last two are divided by clip as well, as upstream has it, so that they reach
// 1/2 ± 1/(2·clip) only. Invariant (tests): an advantage of 0 is 1/2 in every mode, and r
// never falls as the advantage grows.
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
		out[i] = math.Min(math.Max(float64(a/clip/2)+0.5, 0), 1)
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
	return x // 0, or missing
}
