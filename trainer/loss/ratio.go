package loss

import "github.com/darkroom-rl/darkroom/portable"

// The ratio of a transition's probabilities under the current and the old weights:
//
//	plain         e^(lp - old)
//	guard         e^((lp - old + bias)·τ), GRPO-Guard (2025): the mean of lp - old over the
//	              old policy draws is -bias, bias = mean (m - m_old)²/(2τ²), so adding it takes
//	              the drift out, and τ makes steps of different noise comparable. The loss is
//	              divided by Δ. τ = mean(std)·mean(√Δ) over the batch (verl-omni)
//	guard_batch   the bias is one number, a mean over the batch too (flow_grpo's Guard, whose
//	              mean(dim=()) averages over everything)
//	guard_plain   guard without the division by Δ (Flow-Factory)
//
// std is the kernel's deviation: g for Flow-SDE, so that τ is the deviation; for CPS and Dance it is the deviation
// already, and τ comes out √Δ too small, upstream too.

// RatioForm is which form the ratio has.
type RatioForm struct {
	Ratio string `toml:"ratio" enum:"plain,guard,guard_batch,guard_plain" doc:"of clip: without its drift (verl-omni's form, flow_grpo's, Flow-Factory's)"`
}

// DefaultRatioForm is PPO's.
func DefaultRatioForm() RatioForm { return RatioForm{Ratio: "plain"} }

func (o RatioForm) guarded() bool { return o.Ratio != "" && o.Ratio != "plain" }

// guardFactor is 1/Δ where the loss is divided by it.
func (o Clip) guardFactor(t Terms) float64 {
	if o.Ratio != "guard" && o.Ratio != "guard_batch" {
		return 1
	}
	q := average(t.SqrtDt)
	return 1 / (q * q)
}

func guardScale(t Terms) float64 { return float64(average(t.Std) * average(t.SqrtDt)) }

// ratios are those of all rows.
func (o Clip) ratios(t Terms) Result {
	r := Result{Ratio: make([]float64, len(t.LogProb))}
	if !o.guarded() {
		for i, lp := range t.LogProb {
			r.Ratio[i] = portable.Exp(lp - t.Old[i])
		}
		return r
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
		r.Ratio[i] = portable.Exp((lp - t.Old[i] + r.Bias[i]) * tau)
	}
	return r
}

// throughRatios takes the slopes by the ratios to log-probabilities and means.
func (o Clip) throughRatios(t Terms, r *Result, slope []float64) {
	n := len(slope)
	r.GradLogProb = make([]float64, n)
	if !o.guarded() {
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

// GuardObjective is GRPO-Guard.
var GuardObjective = Objective{
	Name: "guard", Card: "The ratio without its drift, at the scale of each step (GRPO-Guard).",
	Paper: "GRPO-Guard (2025)", Formula: "clip, of e^((lp - old + bias)·τ), bias = mean (m - m_old)²/(2τ²)", Cases: []string{"loss.guard_flow_grpo", "loss.guard_flow_factory", "loss.verl_guard"},
	Pictures: clippedSteps("guard", PlainAtOne),
}
