package ledger

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// UpdateOf is the line of an update, of its metrics' means and of its ratios' spread.
func UpdateOf(loss, gradient, rate float64, metrics map[string][]float64) UpdateLine {
	line := UpdateLine{Loss: loss, Gradient: gradient, Rate: rate, Metrics: map[string]float64{}}
	for name, values := range metrics {
		if name == "ratio" {
			if m := SpreadOf(values).Mean; !math.IsNaN(m) {
				line.RatioMean = min(m, math.MaxFloat64) // an infinite one has no place in JSON
			}
			line.Mismatch = logRatio(values)
			for _, r := range values {
				if math.IsNaN(r) {
					continue
				}
				if r = min(r, math.MaxFloat64); math.Abs(r-1) >= math.Abs(line.RatioMost-1) || line.RatioMost == 0 {
					line.RatioMost = r
				}
			}
			continue
		}
		if m := SpreadOf(values).Mean; name != "loss" && !math.IsNaN(m) && !math.IsInf(m, 0) {
			line.Metrics[name] = m
		}
	}
	return line
}

// logRatio is the root mean square of ratios' logarithms.
func logRatio(ratios []float64) float64 {
	sum := 0.0
	for _, r := range ratios {
		if r != 1 && !math.IsNaN(r) {
			sum += float64(portable.Log(r) * portable.Log(r))
		}
	}
	return min(math.Sqrt(sum/float64(max(1, len(ratios)))), math.MaxFloat64)
}
