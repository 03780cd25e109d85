package prompts

import (
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/rng"
)

// Pick are the numbers of an iteration's n prompts out of total: endless epochs, each shuffled by the key.
// Where an epoch ends inside an iteration, prompts of the next one that the iteration has already are put
// off: each changes places with the next prompt of that epoch that the iteration does not have.
//
// Invariants (tests): an epoch has every prompt once; an iteration has none twice, unless there are fewer
// than n; iterations are those of plain epochs, but for prompts that were put off.
func Pick(k rng.Key, iteration, n, total int) []int {
	if n > total {
		return From(k, iteration*n, n, total)
	}
	numbers := make([]int, n)
	epoch, order := -1, []int(nil)
	for i := range numbers {
		p := iteration*n + i
		if p/total != epoch {
			epoch = p / total
			order = epochOf(k, epoch, n, total)
		}
		numbers[i] = order[p%total]
	}
	return numbers
}

// epochOf is the order of an epoch. It depends on the one before where that ends inside an iteration, so
// orders are made from an epoch on that begins with an iteration.
func epochOf(k rng.Key, epoch, n, total int) []int {
	first := epoch
	for first > 0 && first*total%n != 0 && !(total >= 2*n && first < epoch) { // then the end of an epoch is that of a plain one
		first--
	}
	var order []int
	for e := first; e <= epoch; e++ {
		before := e * total % n // prompts that the iteration has when the epoch begins
		next := k.Iteration(e).Draw().Perm(total)
		if e > first && before > 0 {
			putOff(next, n-before, order[total-before:])
		}
		order = next
	}
	return order
}

// putOff moves those of the first head numbers that an iteration has to later places.
func putOff(order []int, head int, has []int) {
	later := head
	for i := range order[:head] {
		if !slices.Contains(has, order[i]) {
			continue
		}
		for slices.Contains(has, order[later]) {
			later++
		}
		order[i], order[later] = order[later], order[i]
		later++
	}
}

// From are n numbers of the same endless list in plain epochs, from a place on.
func From(k rng.Key, place, n, total int) []int {
	numbers := make([]int, n)
	epoch, perm := -1, []int(nil)
	for i := range numbers {
		p := place + i
		if p/total != epoch {
			epoch = p / total
			perm = k.Iteration(epoch).Draw().Perm(total)
		}
		numbers[i] = perm[p%total]
	}
	return numbers
}
