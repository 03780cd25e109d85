package main

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// adaptiveWeight moves the weight of a KL towards a target (Ziegler et al., 2019; Pref-GRPO's
// AdaptiveKLController for Wan):
//
//	average += Alpha·(kl - average), the first taken as it is
//	weight  *= exp((average - Target)/Target · n/Horizon), cut to [Least, Most]
//
// n is how many samples the step had. Without a target the weight stays, and a weight of 0 stays 0. The new
// weight counts from the next step on.
type adaptiveWeight struct {
	Target, Horizon, Alpha, Least, Most float64
	Weight, Average                     float64
	began                               bool
}

// step tells of a step's KL and the number of its samples.
func (a *adaptiveWeight) step(kl, n float64) {
	if !a.began {
		a.Average, a.began = kl, true
	} else {
		a.Average += float64(a.Alpha * (kl - a.Average))
	}
	if a.Target > 0 {
		grown := a.Weight * portable.Exp((a.Average-a.Target)/a.Target*n/math.Max(a.Horizon, 1))
		a.Weight = min(max(grown, a.Least), a.Most)
	}
}
