package advantage

import (
	"math"
	"slices"
)

// Which samples are trained on.

// BestOfN keeps the ⌈n/2⌉ highest scores, then the ⌊n/2⌋ lowest, both ascending (DanceGRPO).
func BestOfN(scores []float64, n int) []int {
	order := ascending(scores)
	return append(slices.Clone(order[len(order)-(n+1)/2:]), order[:n/2]...)
}

func ascending(scores []float64) []int {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case scores[a] < scores[b]:
			return -1
		case scores[a] > scores[b]:
			return 1
		}
		return 0
	})
	return order
}

// Pairs are the best and the worst sample of every prompt with at least two, for DPO: of
// equals the first is the best and the last the worst.
func Pairs(ids []int, scores []float64) [][2]int {
	var pairs [][2]int
	for _, g := range Groups(ids) {
		g = present(g, scores)
		if len(g) < 2 {
			continue
		}
		best, worst := g[0], g[0]
		for _, i := range g[1:] {
			if scores[i] > scores[best] {
				best = i
			}
			if scores[i] <= scores[worst] {
				worst = i
			}
		}
		pairs = append(pairs, [2]int{best, worst})
	}
	return pairs
}

// NonZero are the rows whose advantages are not all 0, and how many rows are trained where
// these are filled up with others to a multiple of batches.
func NonZero(advantages [][]float64, batches int) (nonzero []bool, count int) {
	for _, row := range advantages {
		some := slices.ContainsFunc(row, func(a float64) bool { return a != 0 && !math.IsNaN(a) })
		nonzero = append(nonzero, some)
		if some {
			count++
		}
	}
	if rest := count % batches; rest != 0 && len(advantages)-count >= batches-rest {
		count += batches - rest
	}
	return nonzero, count
}

// KeepByMean keeps groups whose mean lies between low and high (dynamic sampling: groups
// that are all right or all wrong teach nothing).
func KeepByMean(ids []int, scores []float64, low, high float64) []int {
	var kept []int
	for _, g := range Groups(ids) {
		r := pick(scores, present(g, scores))
		if m := mean(r); len(r) > 0 && m > low && m < high {
			kept = append(kept, g...)
		}
	}
	slices.Sort(kept)
	return kept
}

// KeepByDeviation drops groups whose rewards deviate (n-1) by less than least, and groups
// with a missing one, and those whose judge failed. Rows that ran out of turns stay outside
// the deviation where exceeded is given.
func KeepByDeviation(ids []int, scores []float64, least float64, failed func(group int) bool, exceeded []bool) []int {
	var kept []int
	for _, g := range Groups(ids) {
		var r []float64
		bad := failed(ids[g[0]])
		for _, i := range g {
			bad = bad || math.IsNaN(scores[i])
			if exceeded == nil || !exceeded[i] {
				r = append(r, scores[i])
			}
		}
		if !bad && len(r) > 1 && deviation(r, 1) >= least {
			kept = append(kept, g...)
		}
	}
	slices.Sort(kept)
	return kept
}

// KeepUnequal keeps groups whose rewards are not all equal, and samples alone (PyVision-RL).
func KeepUnequal(ids []int, scores []float64) []int {
	var kept []int
	for _, g := range Groups(ids) {
		if len(g) == 1 || slices.ContainsFunc(g, func(i int) bool { return scores[i] != scores[g[0]] }) {
			kept = append(kept, g...)
		}
	}
	slices.Sort(kept)
	return kept
}
