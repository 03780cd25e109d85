package advantage

// Versus compares every sample of a group with every other by their rewards, and gives the share
// that each wins (WinRate): Pref-GRPO's reward for judges that give numbers. What is left of a
// reward is its rank in the group, so that one outlier moves nobody but itself, and a reward's
// scale does not matter.
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
