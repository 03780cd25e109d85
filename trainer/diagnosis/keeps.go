package diagnosis

import (
	"math"

	"github.com/darkroom-rl/darkroom/sde"
)

// Card: what a step keeps of the gradient. A step draws next = mean + τz, and its mean is a·x + b·v in the network's
// output v. So a change of v changes the log-probability of what was drawn by z·b/τ an element, and the step keeps
//
//	|b|/τ        = √(Δ(1-s)/s)·(1/η + η/2) for Flow-SDE, as in Flow-GRPO's kernel: little near s = 1, where a large
//	               shift has most of its steps
//	2·|b|·τ      for CPS, whose log-probability leaves the deviation out
//
// A step that draws nothing keeps 0.
// Invariant (test): the formula for Flow-SDE at any step, and the derivative of sde's own log-probability.

// Keeps is what each row keeps of the gradient.
func Keeps(rows []sde.Row) []float64 {
	all := make([]float64, len(rows))
	for i, r := range rows {
		if r.Noise == 0 || r.Density == sde.None || r.Lags() > 0 {
			continue
		}
		var h sde.History
		h.Push([]float64{0}, []float64{0})
		mean := r.Mean(&h)
		drawn := []float64{mean[0] + r.Noise}
		all[i] = math.Abs(r.LogProbGrad(mean, drawn)[0] * r.Slope(&h)[0])
		if math.IsNaN(all[i]) || math.IsInf(all[i], 0) {
			all[i] = 0
		}
	}
	return all
}

// root is the root mean square of numbers; 0 of none.
func root(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v*v) / float64(len(x))
	}
	return math.Sqrt(sum)
}
