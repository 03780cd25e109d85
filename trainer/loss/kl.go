package loss

import "math"

// Estimators of KL from log-probabilities (Schulman, 2020), with x = lp - ref:
//
//	k1  x          k2  x²/2          k3  e^-x + x - 1          abs  |x|
//
// verl cuts k3's exponent to ±20 and its value to ±10; OpenRLHF cuts all to ±10.

// KL is an estimate and its slope by lp.
func KL(kind string, lp, ref float64) (kl, slope float64) {
	x := lp - ref
	switch kind {
	case "k2", "mse":
		return x * x / 2, x
	case "abs":
		switch {
		case x > 0:
			return x, 1
		case x < 0:
			return -x, -1
		}
		return 0, 0
	case "k3", "low_var_kl":
		e := cutLog(-x, farthest)
		v := math.Exp(e) - e - 1
		if v <= 10 && math.Abs(x) <= farthest {
			slope = 1 - math.Exp(e)
		}
		return math.Min(math.Max(v, -10), 10), slope
	}
	return x, 1
}

// KLCut is OpenRLHF's: every estimator between -10 and 10.
func KLCut(kind string, lp, ref float64) float64 {
	x := lp - ref
	switch kind {
	case "k2":
		x = x * x / 2
	case "k3":
		x = math.Exp(-x) - 1 + x
	}
	return cutLog(x, 10)
}

// KLController steers a KL to a target (Ziegler et al., 2019):
// value *= 1 + clip(kl/target - 1, ±0.2)·n/horizon.
type KLController struct{ Value, Target, Horizon float64 }

// Update moves the value after n samples with a mean KL.
func (c *KLController) Update(kl, n float64) {
	c.Value *= 1 + cutLog(kl/c.Target-1, 0.2)*n/c.Horizon
}
