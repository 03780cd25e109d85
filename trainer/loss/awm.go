package loss

import (
	"fmt"
	"math"
)

// Advantage-weighted matching (Xue et al., 2025): the flow-matching error of a noised sample
// serves as its log-probability. With d = mean (v - (e - x0))²,
//
//	Uniform -d,  t -d·t,  t**2 -d·t²,  huber -(√(d + 1e-10) - 1e-5)·t,
//	ghuber -((d + 1e-10)^p - 1e-10^p)·t/p
//
// and its objective clips ratios of these like any other.

// AWMLogProb is the log-probabilities, and their slope by the velocities times w.
func AWMLogProb(t Noised, weighting string, power float64, w []float64) (lp []float64, grad [][]float64, err error) {
	grad = zeros(t.V)
	for i, v := range t.V {
		d, n := 0.0, float64(len(v))
		for e := range v {
			diff := v[e] - t.target(i, e)
			d += diff * diff / n
		}
		time, value, slope := t.Time[i], 0.0, 0.0
		switch weighting {
		case "Uniform":
			value, slope = -d, -1
		case "t":
			value, slope = -d*time, -time
		case "t**2":
			value, slope = -d*time*time, -time*time
		case "huber":
			root := math.Sqrt(d + 1e-10)
			value, slope = -(root-1e-5)*time, -time/(2*root)
		case "ghuber":
			value = -(math.Pow(d+1e-10, power) - math.Pow(1e-10, power)) * time / power
			slope = -math.Pow(d+1e-10, power-1) * time
		default:
			return nil, nil, fmt.Errorf("weighting %q is not known: Uniform, t, t**2, huber and ghuber are", weighting)
		}
		lp = append(lp, value)
		for e := range v {
			grad[i][e] = w[i] * slope * 2 * (v[e] - t.target(i, e)) / n
		}
	}
	return lp, grad, nil
}

// AWMDeviation is the deviation that goes with a time.
func AWMDeviation(time float64) float64 {
	return 0.7 * math.Sqrt(time/(1-math.Min(math.Max(time, 0), 0.99)))
}

// AWM clips ratios over several noised times of each sample: one ratio of the means over
// times (SumFirst), or one of each.
type AWM struct {
	Clip
	SumFirst bool `toml:"sum_first" doc:"one ratio a sample"`
}

// Of is the policy's part over log-probabilities [times][samples].
func (o AWM) Of(lp, old [][]float64, advantages []float64) (policy float64, grad [][]float64) {
	grad = zeros(lp)
	times, n := float64(len(lp)), float64(len(advantages))
	for i, a := range advantages {
		a = one(o.Boost) * o.cut(a)
		if o.SumFirst {
			mean := 0.0
			for k := range lp {
				mean += (lp[k][i] - old[k][i]) / times
			}
			ratio := math.Exp(mean)
			value, slope := o.clipped(a, ratio)
			policy += value / n
			for k := range lp {
				grad[k][i] = slope * ratio / times / n
			}
			continue
		}
		for k := range lp {
			ratio := math.Exp(lp[k][i] - old[k][i])
			value, slope := o.clipped(a, ratio)
			policy += value / n / times
			grad[k][i] = slope * ratio / n / times
		}
	}
	return policy, grad
}
