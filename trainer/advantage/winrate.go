package advantage

import (
	"math"
	"strconv"
)

// WinRate is the share of its comparisons that a sample wins (Pref-GRPO, 2025): a reward
// from a judge that only says which of two is better. outcome is the first's share: 1 it
// won, 0 it lost, one half a tie. Pref-GRPO also writes one half for an answer that could
// not be read; here such a comparison may be NaN, which counts for neither, and a sample
// that was never compared has no reward. rounded gives three decimals in float32, as
// Pref-GRPO stores them.
//
// Invariant (tests): with every pair compared once, win rates add up to half the samples.
func WinRate(items int, pairs [][2]int, outcome []float64, rounded bool) []float64 {
	wins, games := make([]float64, items), make([]float64, items)
	for i, p := range pairs {
		if math.IsNaN(outcome[i]) {
			continue
		}
		wins[p[0]] += outcome[i]
		wins[p[1]] += 1 - outcome[i]
		games[p[0]]++
		games[p[1]]++
	}
	for i := range wins {
		wins[i] /= games[i] // 0/0: never compared
		if rounded {
			wins[i] = float64(float32(threeDecimals(wins[i])))
		}
	}
	return wins
}

// threeDecimals rounds half to even on the binary value, as Python does.
func threeDecimals(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'f', 3, 64), 64)
	if err != nil {
		return math.NaN()
	}
	return y
}
