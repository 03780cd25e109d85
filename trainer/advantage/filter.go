package advantage

import (
	"math"
	"slices"
)

// Filter leaves out groups that teach nothing (DAPO's dynamic sampling: Yu et al., 2025).
//
//	mean       keeps groups whose mean lies strictly between Low and High (EasyR1)
//	deviation  keeps groups whose deviation (n-1) is at least Least, and drops those with a
//	           missing reward (Mini-o3)
//	unequal    keeps groups whose rewards are not all equal, and samples alone
//	open       keeps groups whose deviation (n) is above Least and whose mean is below High
//	           (Edit-R1): the best still differs from the others
//	rounded    the same as unequal by numpy's deviation over n, which is not 0 for 0.1 three times
//	           (PyVision-RL): a group that is kept by such an error teaches nothing
//
// A missing reward does not count in mean and unequal; a group without any reward is dropped.
type Filter struct {
	By    string  `toml:"by" enum:"mean,deviation,open,unequal,rounded" doc:"what is looked at"`
	Low   float64 `toml:"low" doc:"a group's mean must be above"`
	High  float64 `toml:"high" doc:"and below"`
	Least float64 `toml:"least" range:"[0,inf)" doc:"the least deviation"`
	// Compared is as in flow_grpo and Edit-R1: the deviation of a batch is that of all its samples.
	Compared bool `toml:"compared" doc:"groups that are left out are compared nevertheless, so that the batch's deviation is that of all samples; they have no part in loss, KL and passes of the network"`
}

// DefaultFilter is DAPO's, for rewards of right and wrong.
func DefaultFilter() Filter { return Filter{By: "mean", Low: 0.01, High: 0.99, Least: 1e-4} }

// Card describes the choice and names its source.
func (Filter) Card() string {
	return "Groups that teach nothing are left out before samples are compared (DAPO)."
}

// SetDefaults is DefaultFilter, before its keys are read.
func (f *Filter) SetDefaults() { *f = DefaultFilter() }

// Check reports bounds that keep nothing.
func (f Filter) Check(report func(key, problem, hint string)) {
	if f.By == "mean" && f.Low >= f.High {
		report("low|high", "no group's mean lies between them", "low = 0.01 and high = 0.99 drop what is all wrong or all right")
	}
}

// Kept are the samples of the groups that stay, ascending. Samples that are aside (they ran
// out of turns, say) do not count where a deviation is taken, but stay with their group; nil:
// none is.
func (f Filter) Kept(ids []int, rewards []float64, aside []bool) []int {
	var kept []int
	for _, g := range Groups(ids) {
		if f.keeps(g, rewards, aside) {
			kept = append(kept, g...)
		}
	}
	slices.Sort(kept)
	return kept
}

func (f Filter) keeps(g []int, rewards []float64, aside []bool) bool {
	r := pick(rewards, present(g, rewards))
	switch {
	case len(r) == 0:
		return false
	case f.By == "unequal":
		return len(r) == 1 || slices.Min(r) != slices.Max(r)
	case f.By == "rounded":
		mean := pairwise(r) / float64(len(r))
		return len(r) == 1 || slices.ContainsFunc(r, func(v float64) bool { return v != mean })
	case f.By == "open":
		return deviation(r, 0) > f.Least && mean(r) < f.High
	case f.By == "deviation":
		counted := slices.DeleteFunc(slices.Clone(g), func(i int) bool { return aside != nil && aside[i] })
		d := deviation(pick(rewards, counted), 1)
		return len(r) == len(g) && !math.IsNaN(d) && d >= f.Least
	}
	m := mean(r)
	return m > f.Low && m < f.High
}

// pairwise adds as numpy does: one after the other below eight, then in eight sums, and
// halves of more than 128.
func pairwise(x []float64) float64 {
	n := len(x)
	if n > 128 {
		half := n/2 - n/2%8
		return pairwise(x[:half]) + pairwise(x[half:])
	}
	var r [8]float64
	whole := 0
	for ; n >= 8 && whole+8 <= n; whole += 8 {
		for k := range r {
			r[k] += x[whole+k]
		}
	}
	sum := ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
	for _, v := range x[whole:] {
		sum += v
	}
	return sum
}
