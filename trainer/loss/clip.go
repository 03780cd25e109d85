package loss

import (
	"fmt"
	"math"
)

// The clipped policy objective (PPO; Schulman et al., 2017) over the decisions of one step:
//
//	L = mean of w·max(-A·r, -A·clip(r, 1-low, 1+high)) · scale + weight·KL
//
// A is the advantage cut to [-AdvLow, AdvHigh] and times Boost; w optional rollout weights.
// The ratio is
//
//	plain         exp(lp - old)
//	guard         exp((lp - old + bias)·τ), GRPO-Guard: bias = mean (m - m_old)²/(2τ²) of a
//	              sample, τ = mean(std)·mean(√Δ), and L over mean(√Δ)² (verl-omni)
//	guard_batch   the bias is one number, a mean over the batch too (flow_grpo's Guard, whose
//	              mean(dim=()) averages over everything)
//	guard_plain   guard without the division (Flow-Factory)
//
// KL is mean of (m - m_ref)²/denominator: which denominator the published system has is in
// KLDenominator's rows.
type Clip struct {
	Low     float64 `toml:"clip_low" range:"[0,inf)" doc:"how far a ratio may fall below 1"`
	High    float64 `toml:"clip_high" range:"[0,inf)" doc:"how far a ratio may rise above 1"`
	AdvLow  float64 `toml:"adv_low" range:"[0,inf)" doc:"advantages are cut to at least minus this"`
	AdvHigh float64 `toml:"adv_high" range:"[0,inf)" doc:"advantages are cut to at most this"`
	Ratio   string  `toml:"ratio" enum:"plain,guard,guard_batch,guard_plain" doc:"the form of the ratio"`

	Boost    float64 `toml:"-"` // of advantages; 0: 1
	Scale    float64 `toml:"-"` // of the policy's part; 0: 1
	KLWeight float64 `toml:"-"`
}

// Terms are what an objective looks at, a row a sample.
type Terms struct {
	LogProb, Old, Advantage []float64
	Weight                  []float64   // nil: 1
	Mean, MeanOld, MeanRef  [][]float64 // of transitions; nil where nothing reads them
	KLDenominator           []float64   // of each row
	Std, SqrtDt             []float64   // of guard
}

// Result is a loss and its gradients.
type Result struct {
	Loss, Policy, KL float64
	Ratio, Bias      []float64
	GradLogProb      []float64
	GradMean         [][]float64 // nil where no term reads the means
	Metrics          map[string]float64
}

// Of is the objective of some decisions.
func (o Clip) Of(t Terms) (Result, error) {
	n := len(t.LogProb)
	if len(t.Old) != n || len(t.Advantage) != n || t.Weight != nil && len(t.Weight) != n {
		return Result{}, fmt.Errorf("%d log-probabilities, %d old ones, %d advantages", n, len(t.Old), len(t.Advantage))
	}
	r, err := o.ratios(t)
	if err != nil {
		return r, err
	}
	scale := one(o.Scale)
	if o.Ratio == "guard" || o.Ratio == "guard_batch" {
		q := average(t.SqrtDt)
		scale /= q * q
	}
	slope := make([]float64, n) // of the loss by each ratio
	for i, ratio := range r.Ratio {
		a := one(o.Boost) * o.cut(t.Advantage[i])
		value, by := o.clipped(a, ratio)
		w := scale / float64(n)
		if t.Weight != nil {
			w *= t.Weight[i]
		}
		r.Policy += value * w
		slope[i] = by * w
	}
	o.throughRatios(t, &r, slope)
	r.Loss = r.Policy
	if o.KLWeight != 0 {
		o.addKL(t, &r)
	}
	r.Metrics = o.metrics(t, r.Ratio)
	return r, nil
}

func one(x float64) float64 {
	if x == 0 {
		return 1
	}
	return x
}

// cut bounds an advantage.
func (o Clip) cut(a float64) float64 {
	if o.AdvLow == 0 && o.AdvHigh == 0 {
		return a
	}
	return math.Min(math.Max(a, -o.AdvLow), o.AdvHigh)
}

// clipped is one sample's loss and its derivative by the ratio.
func (o Clip) clipped(a, ratio float64) (value, slope float64) {
	bounded := math.Min(math.Max(ratio, 1-o.Low), 1+o.High)
	if plain, cut := -a*ratio, -a*bounded; plain < cut {
		return cut, 0
	}
	return -a * ratio, -a
}

// ratios are those of all rows.
func (o Clip) ratios(t Terms) (Result, error) {
	r := Result{Ratio: make([]float64, len(t.LogProb))}
	if o.Ratio == "" || o.Ratio == "plain" {
		for i, lp := range t.LogProb {
			r.Ratio[i] = math.Exp(lp - t.Old[i])
		}
		return r, nil
	}
	if len(t.Mean) != len(t.LogProb) || len(t.MeanOld) != len(t.LogProb) || len(t.Std) == 0 || len(t.SqrtDt) == 0 {
		return r, fmt.Errorf("ratio %q needs the means of the old policy", o.Ratio)
	}
	tau := guardScale(t)
	total := 0.0
	for i, m := range t.Mean {
		b := distance(m, t.MeanOld[i]) / (2 * tau * tau)
		r.Bias = append(r.Bias, b)
		total += b
	}
	if o.Ratio == "guard_batch" {
		for i := range r.Bias {
			r.Bias[i] = total / float64(len(t.Mean))
		}
	}
	for i, lp := range t.LogProb {
		r.Ratio[i] = math.Exp((lp - t.Old[i] + r.Bias[i]) * tau)
	}
	return r, nil
}

func guardScale(t Terms) float64 { return average(t.Std) * average(t.SqrtDt) }

// throughRatios takes the slopes by the ratios to log-probabilities and means.
func (o Clip) throughRatios(t Terms, r *Result, slope []float64) {
	n := len(slope)
	r.GradLogProb = make([]float64, n)
	if o.Ratio == "" || o.Ratio == "plain" {
		for i, s := range slope {
			r.GradLogProb[i] = s * r.Ratio[i]
		}
		return
	}
	tau := guardScale(t)
	byBias := make([]float64, n)
	for i, s := range slope {
		r.GradLogProb[i] = s * r.Ratio[i] * tau
		byBias[i] = r.GradLogProb[i]
	}
	if o.Ratio == "guard_batch" {
		all := average(byBias)
		for i := range byBias {
			byBias[i] = all
		}
	}
	r.GradMean = zeros(t.Mean)
	for i, m := range t.Mean {
		for e := range m {
			r.GradMean[i][e] = byBias[i] * (m[e] - t.MeanOld[i][e]) / (tau * tau * float64(len(m)))
		}
	}
}

// addKL adds the distance to the reference.
func (o Clip) addKL(t Terms, r *Result) {
	if r.GradMean == nil {
		r.GradMean = zeros(t.Mean)
	}
	kl, grad := KLMeans(t.Mean, t.MeanRef, t.KLDenominator)
	r.KL = kl
	r.Loss += o.KLWeight * kl
	for i, row := range grad {
		for e, g := range row {
			r.GradMean[i][e] += o.KLWeight * g
		}
	}
}

// KLMeans is the mean over rows of the mean of (m - ref)²/denominator, and its gradient.
func KLMeans(mean, ref [][]float64, denominator []float64) (kl float64, grad [][]float64) {
	grad = zeros(mean)
	for i, m := range mean {
		d := denominator[min(i, len(denominator)-1)]
		n := float64(len(m) * len(mean))
		for e := range m {
			diff := m[e] - ref[i][e]
			kl += diff * diff / d / n
			grad[i][e] = 2 * diff / d / n
		}
	}
	return kl, grad
}

// metrics describe the ratios.
func (o Clip) metrics(t Terms, ratio []float64) map[string]float64 {
	m := map[string]float64{"ratio_mean": average(ratio), "ratio_std": spread(ratio, 1), "clipped": 0, "clipped_high": 0, "clipped_low": 0}
	n := float64(len(ratio))
	for i, r := range ratio {
		d := t.LogProb[i] - t.Old[i]
		m["approx_kl"] += d * d / 2 / n
		m["ppo_kl"] -= d / n
		if r-1 > o.High {
			m["clipped_high"] += 1 / n
		}
		if 1-r > o.Low {
			m["clipped_low"] += 1 / n
		}
		if math.Abs(r-1) > o.High {
			m["clipped"] += 1 / n
		}
	}
	return m
}

// average is the mean of numbers.
func average(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// spread is the deviation, 0 where there are too few numbers.
func spread(x []float64, ddof int) float64 {
	if len(x) <= ddof {
		return 0
	}
	m, squares := average(x), 0.0
	for _, v := range x {
		squares += (v - m) * (v - m)
	}
	return math.Sqrt(squares / float64(len(x)-ddof))
}

// distance is the mean squared difference.
func distance(x, y []float64) float64 {
	sum := 0.0
	for i, v := range x {
		sum += (v - y[i]) * (v - y[i])
	}
	return sum / float64(len(x))
}

// zeros has the shape of x.
func zeros(x [][]float64) [][]float64 {
	z := make([][]float64, len(x))
	for i := range x {
		z[i] = make([]float64, len(x[i]))
	}
	return z
}

// SquaredChange is half the mean squared change of log-probabilities, MixGRPO's KL.
func SquaredChange(lp, old []float64) (kl float64, grad []float64) {
	n := float64(len(lp))
	for i, v := range lp {
		d := v - old[i]
		kl += d * d / 2 / n
		grad = append(grad, d/n)
	}
	return kl, grad
}

// LongCatScale weighs a step by its noise (GenRL): the mean of √(s/(1-s))/√Δ, where s = 1
// takes the schedule's second sigma below. KL is weighed by its square.
func LongCatScale(sigma, second, sqrtDt []float64) float64 {
	sum := 0.0
	for i, s := range sigma {
		below := s
		if s == 1 {
			below = second[min(i, len(second)-1)]
		}
		sum += math.Sqrt(s/(1-below)) / sqrtDt[min(i, len(sqrtDt)-1)]
	}
	return sum / float64(len(sigma))
}
