package eval

import (
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/portable"
)

// Card: intervals by the bootstrap over clusters (Efron 1979; Davison and Hinkley 1997, 3.8).
// Prompts are drawn with replacement, as many as there are, with all that belongs to each; the
// number is computed of every draw, and the interval is between the quantiles of draws that
// leave (1 - level)/2 on each side. Draws follow from a key alone: a report is the same twice.
//
// A share of which all are right, or none, is the same in every draw, and the bootstrap has a point.
// Its interval is the binomial's (Clopper and Pearson 1934), of as many tries as there are prompts:
// with n of n right, from (α/2)^(1/n) to 1. A share between, of one prompt, may be anything.
//
// Invariants (tests): the interval of a mean covers the truth about as often as it says; one
// prompt has no interval; 8 of 8 are 0.63 to 1.

// drawsFor is how many samples are drawn: a quantile then lies 20 draws from the end.
func drawsFor(level float64) int { return int(math.Ceil(40 / (1 - level))) }

// An Interval is a number, and where it lies with the confidence that its user names. Low and
// High are the number itself where there is only one prompt.
type Interval struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// bootstrap is the interval of a number of some members of clusters; of[i] is member i's. ok is false where the
// number does not exist.
func bootstrap(of []int, level float64, key rng.Key, number func(members []int) float64) (i Interval, ok bool) {
	clusters := map[int][]int{}
	var order []int
	all := make([]int, len(of))
	for m, c := range of {
		if clusters[c] == nil {
			order = append(order, c)
		}
		clusters[c] = append(clusters[c], m)
		all[m] = m
	}
	v := number(all)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return Interval{}, false
	}
	if len(order) < 2 {
		return Interval{v, v, v}, true
	}
	r := key.Draw()
	var got []float64
	members := make([]int, 0, 2*len(of))
	for range drawsFor(level) {
		members = members[:0]
		for range order {
			members = append(members, clusters[order[r.Intn(len(order))]]...)
		}
		if x := number(members); !math.IsNaN(x) && !math.IsInf(x, 0) {
			got = append(got, x)
		}
	}
	if len(got) == 0 {
		return Interval{v, v, v}, true
	}
	slices.Sort(got)
	return Interval{v, quantile(got, (1-level)/2), quantile(got, (1+level)/2)}, true
}

// quantile of sorted numbers, between neighbours where it falls between them.
func quantile(sorted []float64, p float64) float64 {
	at := p * float64(len(sorted)-1)
	lo := int(math.Floor(at))
	hi := min(lo+1, len(sorted)-1)
	return sorted[lo] + float64((at-float64(lo))*(sorted[hi]-sorted[lo]))
}

// mean of the members' numbers.
func mean(x []float64) func(members []int) float64 {
	return func(members []int) float64 {
		sum := 0.0
		for _, m := range members {
			sum += x[m]
		}
		return sum / float64(len(members))
	}
}

// ShareOf is the mean of numbers from 0 to 1, with the interval over their clusters.
func ShareOf(x []float64, of []int, level float64, key rng.Key) Interval {
	i := MeanOf(x, of, level, key)
	n := float64(distinct(of))
	if n == 0 {
		return i
	}
	certain := portable.Exp(portable.Log((1-level)/2) / n)
	switch {
	case i.Value == 1:
		i.Low, i.High = certain, 1
	case i.Value == 0:
		i.Low, i.High = 0, 1-certain
	case n == 1:
		i.Low, i.High = 0, 1
	}
	return i
}

// MeanOf is the mean of some numbers, with the interval over their clusters; of[i] is the cluster of x[i].
func MeanOf(x []float64, of []int, level float64, key rng.Key) Interval {
	i, ok := bootstrap(of, level, key, mean(x))
	if !ok {
		return Interval{math.NaN(), math.NaN(), math.NaN()}
	}
	return i
}
