package rewards

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// How a sample's parts become one number; combine.go has the formulas.

// Adds reports whether parts are added up.
func (c Combination) Adds() bool { return c.By == "" || c.By == "sum" }

// join is the rule: x are a sample's parts that are there, w their weights.
func (c Combination) join() (func(x, w []float64) float64, error) {
	switch c.By {
	case "", "sum":
		return sum, nil
	case "product":
		return product, nil
	case "least":
		return least, nil
	case "harmonic":
		return harmonic, nil
	case "ensemble":
		return func(x, w []float64) float64 { return ensemble(x, w, c.Disagreement) }, nil
	}
	return nil, fmt.Errorf("rewards cannot be combined by %q: there are sum, product, least, harmonic and ensemble", c.By)
}

func sum(x, w []float64) (all float64) {
	for k, v := range x {
		all += float64(w[k] * v)
	}
	return all
}

// product is the weighted geometric mean where weights are shares.
func product(x, w []float64) float64 {
	all := 1.0
	for k, v := range x {
		switch v = max(v, 0); {
		case w[k] == 0:
		case w[k] == 1:
			all *= v
		default:
			all *= portable.Pow(v, w[k])
		}
	}
	return all
}

// least leaves parts of weight 0 out, such as gates.
func least(x, w []float64) float64 {
	all := math.Inf(1)
	for k, v := range x {
		if w[k] != 0 {
			all = min(all, float64(w[k]*v))
		}
	}
	if math.IsInf(all, 1) {
		return 0
	}
	return all
}

func harmonic(x, w []float64) float64 {
	weights, inverse := 0.0, 0.0
	for k, v := range x {
		switch {
		case w[k] == 0:
			continue
		case v <= 0:
			return 0
		}
		weights, inverse = weights+w[k], inverse+w[k]/v
	}
	if inverse == 0 {
		return 0
	}
	return weights / inverse
}

// ensemble is the mean of judges of one thing, less the penalty times their variance.
func ensemble(x, w []float64, penalty float64) float64 {
	weights, sum := 0.0, 0.0
	for k, v := range x {
		weights, sum = weights+w[k], sum+float64(w[k]*v)
	}
	if weights == 0 {
		return 0
	}
	mean, apart := sum/weights, 0.0
	for k, v := range x {
		apart += float64(w[k] * (v - mean) * (v - mean))
	}
	return mean - float64(penalty*(apart/weights))
}
