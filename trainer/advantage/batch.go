package advantage

import (
	"fmt"
	"math"
	"slices"
)

// A Batch is the samples of an iteration, as estimators see them. Parallel slices have an
// element a sample.
type Batch struct {
	Groups   []int       // samples with the same number are compared
	Rewards  [][]float64 // of each reward, all samples; NaN: missing
	Weights  []float64   // of the rewards; nil: all 1
	Prompts  []string    // names of prompts that outlive the iteration, for history
	Features [][]float64 // a sample's features, for diversity
	Lengths  []float64   // trained tokens, for opo
}

// check finds slices that do not belong together.
func (b Batch) check() error {
	n := len(b.Groups)
	if len(b.Rewards) == 0 {
		return fmt.Errorf("%d samples have no rewards: nothing to compare", n)
	}
	for k, r := range b.Rewards {
		if len(r) != n {
			return fmt.Errorf("reward %d has %d values for %d samples", k, len(r), n)
		}
		if i := slices.IndexFunc(r, func(v float64) bool { return math.IsInf(v, 0) }); i >= 0 {
			return fmt.Errorf("reward %d of sample %d is %v: a reward that failed is NaN", k, i, r[i])
		}
	}
	if b.Weights != nil && len(b.Weights) != len(b.Rewards) {
		return fmt.Errorf("%d rewards have %d weights", len(b.Rewards), len(b.Weights))
	}
	return nil
}

// weights are those of the rewards.
func (b Batch) weights() []float64 {
	if b.Weights != nil {
		return b.Weights
	}
	return slices.Repeat([]float64{1}, len(b.Rewards))
}

// Groups are the places of each group's samples, in order of first appearance.
func Groups(ids []int) [][]int {
	var groups [][]int
	number := map[int]int{}
	for i, id := range ids {
		g, ok := number[id]
		if !ok {
			g = len(groups)
			number[id] = g
			groups = append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	return groups
}

// numbered are ids of names: the same name, the same id.
func numbered(names []string) []int {
	number, ids := map[string]int{}, make([]int, len(names))
	for i, n := range names {
		if _, ok := number[n]; !ok {
			number[n] = len(number)
		}
		ids[i] = number[n]
	}
	return ids
}

// presentGroups are Groups without the places of missing rewards, and without groups that
// have no others.
func presentGroups(ids []int, rewards []float64) [][]int {
	var groups [][]int
	for _, g := range Groups(ids) {
		if g = present(g, rewards); len(g) > 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

// present leaves out the places of missing rewards.
func present(places []int, rewards []float64) []int {
	return slices.DeleteFunc(slices.Clone(places), func(i int) bool { return math.IsNaN(rewards[i]) })
}

// everywhere is a value where there is a reward, and NaN where it is missing.
func everywhere(value float64, rewards []float64) []float64 {
	out := make([]float64, len(rewards))
	for i, r := range rewards {
		if out[i] = value; math.IsNaN(r) {
			out[i] = math.NaN()
		}
	}
	return out
}

func pick(x []float64, places []int) []float64 {
	out := make([]float64, len(places))
	for k, i := range places {
		out[k] = x[i]
	}
	return out
}

// mean of equal values is that value, to the last bit: a group in which nobody is better
// has advantages of exactly 0.
func mean(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	sum := 0.0
	for _, v := range x {
		sum += v - x[0]
	}
	return x[0] + sum/float64(len(x))
}

// deviation divides by n - ddof; it is NaN where that leaves nothing.
func deviation(x []float64, ddof int) float64 {
	if len(x) <= ddof {
		return math.NaN()
	}
	m, squares := mean(x), 0.0
	for _, v := range x {
		squares += float64((v - m) * (v - m))
	}
	return math.Sqrt(squares / float64(len(x)-ddof))
}

// Stats says how much a batch's groups can teach. Shares and means are over the groups that
// have a reward.
type Stats struct {
	Samples   int
	Missing   int // samples without a reward
	Groups    int // with at least one reward
	Empty     int // without any
	MeanSize  float64
	Mean      float64 // of all rewards; NaN without any
	Spread    float64 // their deviation, ddof 0
	Dead      float64 // share of groups whose rewards are all equal ("zero_std_ratio")
	Deviation float64 // mean over groups, ddof 0 ("mean_std")
	AllOne    float64 // share of groups where every reward is 1: everything right
	AllZero   float64 // and where every one is 0
}

// Measure looks at rewards by group.
func Measure(ids []int, rewards []float64) Stats {
	s := Stats{Samples: len(rewards)}
	groups := Groups(ids)
	var all []float64
	for _, g := range groups {
		r := pick(rewards, present(g, rewards))
		s.Missing += len(g) - len(r)
		if len(r) == 0 {
			s.Empty++
			continue
		}
		s.Groups++
		s.group(r)
		all = append(all, r...)
	}
	if n := float64(s.Groups); n > 0 {
		s.Dead, s.Deviation, s.AllOne, s.AllZero = s.Dead/n, s.Deviation/n, s.AllOne/n, s.AllZero/n
	}
	s.MeanSize = float64(len(ids)) / math.Max(float64(len(groups)), 1)
	s.Mean, s.Spread = mean(all), deviation(all, 0)
	return s
}

// group counts one group's rewards in.
func (s *Stats) group(r []float64) {
	d, m := deviation(r, 0), mean(r)
	s.Deviation += d
	if d != 0 {
		return
	}
	s.Dead++
	if near(m, 1) {
		s.AllOne++
	}
	if near(m, 0) {
		s.AllZero++
	}
}

// near is numpy's isclose.
func near(x, want float64) bool { return math.Abs(x-want) <= 1e-8+float64(1e-5*math.Abs(want)) }
