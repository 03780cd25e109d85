package main

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
)

// What published samplers do and Darkroom does not: a recorded case shows that it is understood.

// cfgRescaled gives one guided sample the deviation of the conditional one, to the degree r (Lin et al., 2023):
// r·v·std(c)/std(v) + (1-r)·v, deviations with n-1. Pipelines of diffusers have it as an option; Darkroom has not.
func cfgRescaled(guided, cond []float64, r float64) []float64 {
	scale := deviationOf(cond) / deviationOf(guided)
	return each(guided, func(g float64) float64 { return float64(r*g*scale) + float64((1-r)*g) })
}

func deviationOf(x []float64) float64 {
	mean, squares := 0.0, 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		squares += float64((v - mean) * (v - mean))
	}
	return math.Sqrt(squares / float64(len(x)-1))
}

// noisedVP is a clean sample noised to a share a of signal, and the velocity there:
// √a·x0 + √(1-a)·e and √a·e - √(1-a)·x0.
func noisedVP(clean, noise []float64, a float64) (x, velocity []float64) {
	signal, sigma := math.Sqrt(a), math.Sqrt(1-a)
	for i, c := range clean {
		x = append(x, float64(signal*c)+float64(sigma*noise[i]))
		velocity = append(velocity, float64(signal*noise[i])-float64(sigma*c))
	}
	return x, velocity
}

// inGroups is flow_grpo's sampler: of one epoch's permutation the first world·batch/k prompts,
// each k times in a row, permuted again, cut into one batch a worker. The permutations are
// arguments.
func inGroups(perm, shuffle []int, k, batch, world int) (unique int, perRank [][]int) {
	n := world * batch
	if k < 1 || n%k != 0 {
		failf("%d workers with batches of %d cannot hold groups of %d: the product must be a multiple", world, batch, k)
	}
	unique = n / k
	if len(perm) < unique || len(shuffle) != n {
		failf("%d prompts are needed, and %d are there", unique, len(perm))
	}
	for r := range world {
		perRank = append(perRank, times(batch, func(j int) int { return perm[shuffle[r*batch+j]/k] }))
	}
	return unique, perRank
}

// promptSeed is flow_grpo's seed of a prompt: the first four bytes of its SHA-256, added to
// the run's, below 2³¹. Equal prompts share it.
func promptSeed(prompt string, base int) int {
	sum := sha256.Sum256([]byte(prompt))
	return (base + int(binary.BigEndian.Uint32(sum[:4]))) % (1 << 31)
}
