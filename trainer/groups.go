package trainer

import "github.com/darkroom-rl/darkroom/trainer/advantage"

// Groups are the places of samples by prompt, in the order of their first.
func Groups(samples []Sample) [][]int {
	prompts := make([]int, len(samples))
	for i, s := range samples {
		prompts[i] = s.Key.Prompt
	}
	return advantage.Groups(prompts)
}

// GroupNumbers number the groups of samples of several iterations: those of one prompt and one iteration
// share a number.
func GroupNumbers(samples []Sample) []int {
	all := make([]int, len(samples))
	number := map[[2]int]int{}
	for i, s := range samples {
		of := [2]int{s.Key.Iteration, s.Key.Prompt}
		if _, ok := number[of]; !ok {
			number[of] = len(number)
		}
		all[i] = number[of]
	}
	return all
}

// Pick are the elements at some places.
func Pick[T any](of []T, at []int) []T {
	out := make([]T, len(at))
	for i, k := range at {
		out[i] = of[k]
	}
	return out
}
