package boxes

import (
	"cmp"
	"slices"
)

// Suppress is greedy non-maximum suppression: boxes in the order of falling scores, each unless
// its IoU with one that was kept is above the threshold. It returns the numbers of those kept.
func Suppress(boxes []Box, scores []float64, threshold float64) []int {
	kept := []int{}
	for _, i := range Falling(scores) {
		if !slices.ContainsFunc(kept, func(k int) bool { return IoU(boxes[k], boxes[i]) > threshold }) {
			kept = append(kept, i)
		}
	}
	return kept
}

// Falling is the order of falling scores; equal ones stay as they are.
func Falling(scores []float64) []int {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	return order
}
