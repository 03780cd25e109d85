package prompts

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Repeat is flow_grpo's sampler: of one epoch's permutation the first world·batch/k prompts,
// each k times in a row, permuted again, cut into one batch a worker. The permutations are
// arguments.
func Repeat(perm, shuffle []int, k, batch, world int) (unique int, perRank [][]int, err error) {
	n := world * batch
	if k < 1 || n%k != 0 {
		return 0, nil, fmt.Errorf("%d workers with batches of %d cannot hold groups of %d: the product must be a multiple", world, batch, k)
	}
	unique = n / k
	if len(perm) < unique || len(shuffle) != n {
		return 0, nil, fmt.Errorf("%d prompts are needed, and %d are there", unique, len(perm))
	}
	for r := range world {
		row := make([]int, batch)
		for j := range row {
			row[j] = perm[shuffle[r*batch+j]/k]
		}
		perRank = append(perRank, row)
	}
	return unique, perRank, nil
}

// PromptSeed is flow_grpo's seed of a prompt: the first four bytes of its SHA-256, added to
// the run's, below 2³¹. Equal prompts share it.
func PromptSeed(prompt string, base int) int {
	sum := sha256.Sum256([]byte(prompt))
	return (base + int(binary.BigEndian.Uint32(sum[:4]))) % (1 << 31)
}
