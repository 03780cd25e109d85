package loss

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// Distances from a reference, or from the weights that rolled.
//
// On means, the mean over rows of the mean of (m - ref)²/denominator: exact for steps that
// draw, with the denominator 2τ². Who divides by what:
//
//	flow_grpo, flow_grpo's Guard  2g², the coefficient without √Δ; Guard's g is the batch's mean
//	verl-omni, Pref-GRPO          2q², q what the kernel returned: g for Flow-SDE, τ for CPS, Dance
//	TempFlow, LongCat's Flow-SDE  2τ²
//	LongCat's CPS, AWM, NFT       1 (AWM with ELBO weights 2·std²)
//
// Denominators below 1e-20 count as that (Pref-GRPO).
//
// On log-probabilities, MixGRPO's is half their mean squared change. Estimators
// from single ones (Schulman, 2020), with x = lp - ref:
//
//	k1  x          k2  x²/2          k3  e^-x + x - 1          abs  |x|
//
// verl cuts k3's exponent to ±20 and its value to ±10; OpenRLHF cuts all to ±10 (Cut).

// Penalty is the term for leaving a reference.
type Penalty struct {
	Weight    float64 `toml:"weight" range:"[0,inf)" doc:"0: not computed"`
	Estimator string  `toml:"estimator" doc:"see darkroom list kls"`
	Over      string  `toml:"over" enum:"published,deviation,one" of:"steps" doc:"of mean: the distance is divided by twice the square of what the solver's published code has, or of the step's deviation, or by 1"`
	Cut       float64 `toml:"cut" range:"[0,inf)" of:"tokens" doc:"a token's distance is cut to this on both sides, beyond which it has no gradient (OpenRLHF: 10); 0: as the estimator has it"`
	Corrected bool    `toml:"corrected" of:"tokens" doc:"of tokens: times the ratio, so that its mean is over the current policy (TRL)"`
	Reference string  `toml:"reference" enum:"base,stage,ema,old,teacher" doc:"who is left: base is the model as the run began, stage as the stage began; teacher is the model of model.teacher, who is drawn near"`
	EMAWeight float64 `toml:"ema_weight" range:"[0,inf)" of:"awm" doc:"of awm: weight of the same distance to the moving average"`
	Reset     int     `toml:"reset" range:"[0,inf)" doc:"iterations after which the reference is made the current weights; 0: never"`
}

// DefaultPenalty is none.
func DefaultPenalty() Penalty {
	return Penalty{Estimator: "mean", Over: "published", Reference: "base"}
}

// Token is a token's distance by the estimator, within Cut, and its slope by lp.
func (p Penalty) Token(lp, ref float64) (kl, slope float64) {
	kl, slope = KL(p.Estimator, lp, ref)
	if p.Cut > 0 && math.Abs(kl) > p.Cut {
		return math.Copysign(p.Cut, kl), 0
	}
	return kl, slope
}

// KLMeans is the distance of means, and its gradient.
func KLMeans(mean, ref [][]float64, denominator []float64) (kl float64, grad [][]float64) {
	grad = addKLMeans(&kl, mean, ref, denominator, len(mean))
	return kl, grad
}

// addKLMeans adds rows to a distance, of so many in all, and is the gradient at their means.
func addKLMeans(kl *float64, mean, ref [][]float64, denominator []float64, rows int) (grad [][]float64) {
	grad = zeros(mean)
	for i, m := range mean {
		d := max(of(denominator, i), 1e-20)
		n := float64(len(m) * rows)
		for e := range m {
			diff := m[e] - ref[i][e]
			*kl += diff * diff / d / n
			grad[i][e] = 2 * diff / d / n
		}
	}
	return grad
}

// onMeans says whether a KL is a distance of means.
func onMeans(estimator string) bool { return estimator == "" || estimator == "mean" }

// lacks is what a KL needs and does not have.
func (t Terms) lacks(estimator string) string {
	n := len(t.LogProb)
	switch {
	case !onMeans(estimator) && len(t.LogProbRef) != n:
		return "by " + estimator + " needs the log-probabilities of the reference"
	case onMeans(estimator) && (len(t.Mean) != n || len(t.MeanRef) != n || len(t.KLDenominator) == 0):
		return "on means needs those of the reference, and denominators"
	}
	return ""
}

// addKL adds the distance to the reference.
func addKL(t Terms, r *Result, estimator string, weight float64) {
	if !onMeans(estimator) {
		n := float64(len(t.LogProb))
		for i, lp := range t.LogProb {
			kl, slope := KL(estimator, lp, t.LogProbRef[i])
			r.KL += kl / n
			r.GradLogProb[i] += weight * slope / n
		}
		r.Loss += float64(weight * r.KL)
		return
	}
	if r.GradMean == nil {
		r.GradMean = zeros(t.Mean)
	}
	kl, grad := KLMeans(t.Mean, t.MeanRef, t.KLDenominator)
	r.KL = kl
	r.Loss += float64(weight * kl)
	addTimes(r.GradMean, grad, weight)
}

// SquaredChange is half the mean squared change of log-probabilities.
func SquaredChange(lp, old []float64) (kl float64, grad []float64) {
	n := float64(len(lp))
	for i, v := range lp {
		d := v - old[i]
		kl += d * d / 2 / n
		grad = append(grad, d/n)
	}
	return kl, grad
}

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
		v := portable.Exp(e) - e - 1
		if v <= 10 && math.Abs(x) <= farthest {
			slope = 1 - portable.Exp(e)
		}
		return math.Min(math.Max(v, -10), 10), slope
	}
	return x, 1
}
