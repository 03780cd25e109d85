package run

import "github.com/darkroom-rl/darkroom/rewards"

// Samples that are lost: what they needed from outside of the program failed while they were rolled. No reward is
// asked about one, and none has a score of it: it is left out of its group, and counted as what a reward misses.

// lost is why a sample cannot be judged; nil: it can.
func lost(item rewards.Item) error {
	if item.Transcript == nil {
		return nil
	}
	return item.Transcript.Lost
}

// judgeable are groups without the samples that are lost.
func judgeable(items []rewards.Item, groups [][]int) (kept [][]int) {
	for _, g := range groups {
		var some []int
		for _, i := range g {
			if lost(items[i]) == nil {
				some = append(some, i)
			}
		}
		if len(some) > 0 {
			kept = append(kept, some)
		}
	}
	return kept
}

// lose says of each reward's results which samples are lost.
func lose(items []rewards.Item, results []rewards.Result) {
	for i := range items {
		if why := lost(items[i]); why != nil {
			results[i] = rewards.Result{Missing: why}
		}
	}
}
