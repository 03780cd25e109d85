package advantage

import (
	"fmt"
	"math"
)

// Diversity weighs samples above their group's mean by their distance from the others (GARDO, 2025): with features of
// unit length and d the distance 1 - cos to the nearest other member, a positive r - mean is times d over the group's
// mean of d. No scale.
//
// Upstream divides 0 by 0 where all members look the same; here nobody is then weighed. Invariants (tests): the
// length of features does not matter; a sample below its group's mean is left as it is; members that are equally
// unlike leave r - mean.
func Diversity(ids []int, rewards []float64, features [][]float64) ([]float64, error) {
	if len(features) != len(rewards) {
		return nil, fmt.Errorf("%d samples have features of %d: diversity needs those of every sample", len(rewards), len(features))
	}
	out := everywhere(0, rewards)
	for _, g := range presentGroups(ids, rewards) {
		base, unlike := mean(pick(rewards, g)), nearest(features, g)
		average := mean(unlike)
		for k, i := range g {
			if out[i] = rewards[i] - base; out[i] > 0 && average > 0 {
				out[i] *= unlike[k] / average
			}
		}
	}
	return out, nil
}

// nearest are distances to the nearest other member; a member alone has 0.
func nearest(features [][]float64, group []int) []float64 {
	distance := make([]float64, len(group))
	for k, i := range group {
		least := math.Inf(1)
		for _, j := range group {
			if j != i {
				least = math.Min(least, 1-cosine(features[i], features[j]))
			}
		}
		if len(group) > 1 {
			distance[k] = least
		}
	}
	return distance
}

// cosine is between -1 and 1; with nothing it is 0.
func cosine(x, y []float64) float64 {
	var xy, xx, yy float64
	for i, v := range x {
		xy, xx, yy = xy+float64(v*y[i]), xx+float64(v*v), yy+float64(y[i]*y[i])
	}
	if xx == 0 || yy == 0 {
		return 0
	}
	return math.Min(math.Max(xy/math.Sqrt(xx)/math.Sqrt(yy), -1), 1)
}

// DiversityRule is GARDO's.
var DiversityRule = Rule{
	Name: "diversity", Card: "As dr, and good samples count more the farther they lie from the others (GARDO).",
	Paper: "GARDO (2025)", Formula: "r - mean of group; where positive, times the distance to the nearest other over its mean", Cases: []string{"adv.gardo"},
	Company: InGroup, GroupMean: true,
	Outcome: rewardOf(func(_ Estimator, b Batch, r []float64) ([]float64, error) { return Diversity(b.Groups, r, b.Features) }),
}
