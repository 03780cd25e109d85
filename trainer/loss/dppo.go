package loss

import (
	"fmt"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/portable"
)

// DPPO (verl-omni's flow variant): no clip. A sample is dropped where its transition has
// moved far, b >= Threshold with b = mean (m - m_old)²/(2τ²), and goes on moving: ratio above
// 1 with a positive advantage, or below with a negative one. Dropped samples count in the
// mean. Nothing flows through the means but the KL, which all samples have. UseStd false divides by 2 instead of 2τ².
type DPPO struct {
	Threshold float64 `toml:"threshold" range:"[0,inf)" doc:"how far a transition may move"`
	UseStd    bool    `toml:"use_std" doc:"measure in deviations"`

	KLWeight    float64 `toml:"-"` // as of Clip
	KLEstimator string  `toml:"-"`
}

// DefaultDPPO is the published setting.
func DefaultDPPO() DPPO { return DPPO{Threshold: 1e-5} }

// Of is the objective.
func (o DPPO) Of(t Terms) (Result, error) {
	if err := o.complete(t); err != nil {
		return Result{}, err
	}
	n := len(t.LogProb)
	r := Result{Ratio: make([]float64, n), Bias: make([]float64, n), GradLogProb: make([]float64, n), Metrics: map[string]float64{"ratio_min": math.Inf(1), "ratio_max": math.Inf(-1)}}
	m, w := r.Metrics, 1/float64(n)
	for i, lp := range t.LogProb {
		d := lp - t.Old[i]
		ratio, denominator := portable.Exp(d), 2.0
		if o.UseStd {
			tau := float64(of(t.Std, i) * of(t.SqrtDt, i))
			denominator = float64(2 * tau * tau)
		}
		b := distance(t.Mean[i], t.MeanOld[i]) / denominator
		r.Ratio[i], r.Bias[i] = ratio, b
		far := b >= o.Threshold
		up, down := far && ratio > 1 && t.Advantage[i] > 0, far && ratio < 1 && t.Advantage[i] < 0
		count := func(name string, is bool) { m[name] += float64(indicator(is) * w) }
		count("kl_mask_fraction", far)
		count("pos_rm_fraction", up)
		count("neg_rm_fraction", down)
		count("masked_fraction", up || down)
		count("unmasked_fraction", !up && !down)
		m["ppo_kl"] -= float64(d * w)
		m["approx_kl"] += float64(d * d / 2 * w)
		m["kl_new_old_mean"] += float64(b * w)
		m["kl_new_old_max"] = math.Max(m["kl_new_old_max"], b)
		m["ratio_min"], m["ratio_max"] = math.Min(m["ratio_min"], ratio), math.Max(m["ratio_max"], ratio)
		if !up && !down {
			r.Policy -= float64(t.Advantage[i] * ratio * w)
			r.GradLogProb[i] = -t.Advantage[i] * ratio * w
		}
	}
	m["ratio_mean"], m["ratio_std"] = average(r.Ratio), spread(r.Ratio, 0)
	r.Loss = r.Policy
	if o.KLWeight != 0 {
		addKL(t, &r, o.KLEstimator, o.KLWeight)
	}
	return r, nil
}

// complete reports missing inputs.
func (o DPPO) complete(t Terms) error {
	n := len(t.LogProb)
	switch {
	case n == 0 || len(t.Old) != n || len(t.Advantage) != n || len(t.Mean) != n || len(t.MeanOld) != n:
		return fmt.Errorf("dppo: %d log-probabilities, %d old ones, %d advantages, %d means, %d old ones: a decision has one of each", n, len(t.Old), len(t.Advantage), len(t.Mean), len(t.MeanOld))
	case o.UseStd && (len(t.Std) == 0 || len(t.SqrtDt) == 0):
		return fmt.Errorf("dppo: use_std needs deviations and √Δ")
	case o.KLWeight != 0 && t.lacks(o.KLEstimator) != "":
		return fmt.Errorf("dppo: a KL %s", t.lacks(o.KLEstimator))
	}
	return nil
}

// Masked is the objective of the options.
func (o Options) Masked() DPPO {
	d := o.DPPO
	d.KLWeight, d.KLEstimator = o.KL.Weight, o.KL.ofSteps()
	return d
}

// DPPOObjective is Flow-DPPO.
var DPPOObjective = Objective{
	Name: "dppo", Card: "No clip: a sample that moves away is left out where the policies diverge (Flow-DPPO).",
	Paper: "Flow-DPPO (verl-omni)", Formula: "-A·ratio, without samples that moved beyond the threshold and go on moving", Cases: []string{"loss.verl_dppo"},
	Pictures: &Form{
		Learns: Transitions, Needs: Advantages | Ratio | PlainAtOne,
		Options: struct {
			DPPO
			MeanOptions
			GuidanceOptions
		}{},
		Words:   func(o Options) string { return fmt.Sprintf(", left out beyond a divergence of %v", o.Threshold) },
		Numbers: slices.Concat(ratioNumbers, []string{"kl_mask_fraction", "pos_rm_fraction", "neg_rm_fraction", "masked_fraction", "unmasked_fraction", "kl_new_old_mean", "kl_new_old_max"}),
		Steps:   func(o Options) StepLoss { return o.Masked().Of },
	},
}
