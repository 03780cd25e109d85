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

// Versus compares every sample of a group with every other by their rewards, and gives the share that each wins
// (WinRate): Pref-GRPO's reward for judges that give numbers. Of a reward only its rank in the group counts, so that
// one outlier moves nobody but itself, and a reward's scale does not matter.
//
// Invariants (tests): any increasing function of the rewards gives the same; a group's win rates
// add up to half its samples; a missing reward takes part in nothing.
func Versus(ids []int, rewards []float64, rounded bool) []float64 {
	out := everywhere(0, rewards)
	for _, g := range presentGroups(ids, rewards) {
		var pairs [][2]int
		var outcome []float64
		for i := range g {
			for j := range i {
				pairs, outcome = append(pairs, [2]int{i, j}), append(outcome, won(rewards[g[i]], rewards[g[j]]))
			}
		}
		if len(g) == 1 { // nobody to win against
			out[g[0]] = 0.5
			continue
		}
		for k, rate := range WinRate(len(g), pairs, outcome, rounded) {
			out[g[k]] = rate
		}
	}
	return out
}

// won is the first's share of a comparison.
func won(a, b float64) float64 {
	switch {
	case a > b:
		return 1
	case a < b:
		return 0
	}
	return 0.5
}

// WinRateRule is Pref-GRPO's, by rewards.
var WinRateRule = Rule{
	Name: "win-rate", Card: "Share of comparisons with its group that a sample wins, by its reward; then as group (Pref-GRPO, whose judge compares pairs).",
	Paper: "Pref-GRPO (2025)", Formula: "group, of the share of comparisons that a sample wins", Cases: []string{"adv.win_rate"},
	Company: InGroup, GroupMean: true, Scaled: true, Set: compares("group", "mean", "group"),
	Outcome: rewardOf(func(e Estimator, b Batch, r []float64) ([]float64, error) {
		return e.Options.Of(b.Groups, Versus(b.Groups, r, true))
	}),
}
