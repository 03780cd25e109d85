package loss

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/sde"
)

// Distances from a reference, or from the weights that rolled.
//
// On means, the mean over rows of the mean of (m - ref)²/denominator: exact for steps that draw, with the denominator
// 2τ². Divisors:
//
//	flow_grpo, flow_grpo's Guard  2g², the coefficient without √Δ; Guard's g is the batch's mean
//	verl-omni, Pref-GRPO          2q², q the kernel's deviation: g for Flow-SDE, τ for CPS, Dance
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
	MeanOptions
	Cut       float64 `toml:"cut" range:"[0,inf)" of:"tokens" doc:"a token's distance is cut to this on both sides, beyond which it has no gradient (OpenRLHF: 10); 0: as the estimator has it"`
	Corrected bool    `toml:"corrected" of:"tokens" doc:"of tokens: times the ratio, so that its mean is over the current policy (TRL)"`
	Reference string  `toml:"reference" enum:"base,stage,ema,old,teacher" doc:"who is left: base is the model as the run began, stage as the stage began; teacher is the model of model.teacher, who is drawn near"`
	AverageOptions
	Reset int `toml:"reset" range:"[0,inf)" doc:"iterations after which the reference is made the current weights; 0: never"`
}

// MeanOptions are the options of distances of means.
type MeanOptions struct {
	Over string `toml:"over" enum:"published,deviation,one" doc:"of mean: the distance is divided by twice the square of what the solver's published code has, or of the step's deviation, or by 1"`
}

// AverageOptions are the options of a distance from the moving average.
type AverageOptions struct {
	EMAWeight float64 `toml:"ema_weight" range:"[0,inf)" doc:"of awm: weight of the same distance to the moving average"`
}

// GuidanceOptions are how the reference is sampled.
type GuidanceOptions struct {
	Guidance float64 `toml:"guidance" range:"[0,100]" doc:"guidance of the reference (base, stage or teacher): a policy sampled without guidance learns what guidance does; 0: that of the sampler"`
}

// KLOptions are the options of the distance from a reference.
type KLOptions struct {
	Penalty
	GuidanceOptions
}

// DefaultPenalty has no penalty.
func DefaultPenalty() Penalty {
	return Penalty{Estimator: "mean", MeanOptions: MeanOptions{Over: "published"}, Reference: "base"}
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

// addKLMeans adds rows to a distance, of `rows` in all, and is the gradient at their means.
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

// lacks is a missing input of a KL.
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

// A Distance is a way to measure how far a reference is left.
type Distance struct {
	Name, Card string
	Verl       string                              // verl's name, where that is another
	Of         func(x float64) (kl, slope float64) // of a log-ratio lp - ref; nil: of means
}

// distances are all of them.
var distances = [...]Distance{
	{Name: "mean", Card: "Distance of the means over the step's deviation: exact for steps that draw (flow_grpo)."},
	{Name: "velocity", Card: "Distance of the network's outputs (Flow-Factory, NFT, AWM)."},
	{Name: "k1", Card: "Log-ratio: right on average, with a gradient that is noise.", Of: func(x float64) (kl, slope float64) { return x, 1 }},
	{Name: "k2", Card: "Half the squared log-ratio.", Verl: "mse", Of: func(x float64) (kl, slope float64) { return x * x / 2, x }},
	{Name: "k3", Card: "exp(-k1) + k1 - 1: never negative (GRPO).", Verl: "low_var_kl", Of: lowVariance},
	{Name: "abs", Card: "Size of the log-ratio.", Of: func(x float64) (kl, slope float64) { return math.Abs(x), signOf(x) }},
}

// Distances are all ways to measure it.
func Distances() []Distance { return distances[:] }

// lowVariance is k3.
func lowVariance(x float64) (kl, slope float64) {
	e := cutLog(-x, farthest)
	v := portable.Exp(e) - e - 1
	if v <= 10 && math.Abs(x) <= farthest {
		slope = 1 - portable.Exp(e)
	}
	return math.Min(math.Max(v, -10), 10), slope
}

// KL is an estimate and its slope by lp; k1's for another name.
func KL(kind string, lp, ref float64) (kl, slope float64) {
	for i := range distances {
		if d := &distances[i]; d.Of != nil && (d.Name == kind || d.Verl == kind && kind != "") {
			return d.Of(lp - ref)
		}
	}
	return lp - ref, 1
}

// ofSteps is the estimator of a KL over transitions. The distance of velocities is that
// of means, with another denominator.
func (k KLOptions) ofSteps() string {
	if k.Estimator == "velocity" {
		return "mean"
	}
	return k.Estimator
}

// Denominator is the divisor of the squared distance of two means of a step. The distance of velocities is that of
// means over the square of how the step weighs its output.
func (k KLOptions) Denominator(row sde.Row) float64 {
	switch {
	case k.Estimator == "velocity":
		out := 0.0
		if len(row.Next.Out) > 0 {
			out = row.Next.Out[0]
		}
		return out * out
	case k.Over == "one":
		return 1
	case k.Over == "deviation":
		return 2 * row.Noise * row.Noise
	}
	return 2 * row.KLDeviation * row.KLDeviation
}

// DistillObjective is the distance from a teacher.
var DistillObjective = Objective{
	Name: "distill", Card: "The distance of a step's mean from the teacher's, on the policy's own samples (Diffusion-OPD); of an episode: of the log-probabilities of its tokens (GKD, on-policy distillation); no sample is compared with another, so that rewards are watched and not learned from.",
	Paper: "Diffusion-OPD; of an episode GKD", Formula: "the distance to the teacher on the policy's own samples", Cases: []string{"loss.kl_mean", "vlm.kl"},
	Pictures: &Form{
		Learns: Transitions, Needs: Ratio | Teacher,
		Options: struct {
			MeanOptions
			GuidanceOptions
		}{},
		Set:     func(o *Options) { o.KL.Weight, o.KL.Reference = 1, "teacher" },
		Words:   rangeWords,
		Numbers: []string{"kl"},
		Steps: func(options Options) StepLoss {
			o := options.Clip()
			return func(t Terms) (Result, error) { // the distance alone, as the clip adds it to its own loss
				t.Advantage = make([]float64, len(t.Advantage))
				return o.Of(t)
			}
		},
	},
	Tokens: &Form{
		Learns: SampledTokens, Needs: Teacher,
		Set:   func(o *Options) { o.KL.Weight, o.KL.Reference, o.KL.Estimator = 1, "teacher", "k2" },
		Token: func(TokenLoss, at, answer, wholeBatch) token { return token{} }, // the distance alone
		Refuse: func(o TokenLoss, report func(key, problem, hint string)) {
			if o.Correction.On() {
				report("correction", "the distance from a teacher is not weighed by what the sampler did otherwise", "leave it out")
			}
		},
	},
}
