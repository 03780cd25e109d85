package advantage

import "math"

// Stats says how much a batch's groups can teach.
type Stats struct {
	Dead      float64 // share of groups whose rewards are all equal
	Deviation float64 // mean over groups, ddof 0
	AllOne    float64 // share of dead groups at 1: everything right
	AllZero   float64 // and at 0
	Missing   int     // rewards
	Groups    int
	MeanSize  float64
}

// Measure looks at rewards by group.
func Measure(ids []int, rewards []float64) Stats {
	var s Stats
	groups := Groups(ids)
	for _, g := range groups {
		s.MeanSize += float64(len(g)) / float64(len(groups))
		r := pick(rewards, present(g, rewards))
		s.Missing += len(g) - len(r)
		if len(r) == 0 {
			continue
		}
		s.Groups++
		d, m := deviation(r, 0), mean(r)
		s.Deviation += d
		if d == 0 {
			s.Dead++
			if near(m, 1) {
				s.AllOne++
			}
			if near(m, 0) {
				s.AllZero++
			}
		}
	}
	if n := float64(s.Groups); n > 0 {
		s.Dead, s.Deviation, s.AllOne, s.AllZero = s.Dead/n, s.Deviation/n, s.AllOne/n, s.AllZero/n
	}
	return s
}

// near is numpy's isclose.
func near(x, want float64) bool { return math.Abs(x-want) <= 1e-8+1e-5*math.Abs(want) }
