package advantage

import "math"

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
