package loss

import (
	"fmt"
	"math"
	"slices"
)

// Clipping is how far the ratio of new to old probabilities may go. Steps of a sampler, matching
// errors of noised samples and tokens share it:
//
//	clipped(A, r) = max(-A·r, -A·clip(r, 1-low, 1+high)); where A < 0 at most -A·dual
type Clipping struct {
	ClipBounds
	DualBound
}

// ClipBounds are the ends of the range.
type ClipBounds struct {
	ClipRange float64 `toml:"clip_range" range:"[0,1]" doc:"how far the ratio may fall below 1, and rise above it; for tokens ([episode]) it is 0.2 unless it is written"`
	ClipHigh  float64 `toml:"clip_high" range:"[0,1e3]" doc:"how far it may rise above 1, if not as far; 0: as far"`
}

// DualBound is the bound of a loss that a large ratio makes.
type DualBound struct {
	DualClip float64 `toml:"dual_clip" range:"[0,inf)" doc:"bound of the loss where the advantage is negative; 0: none"`
}

// Clipped is a range from 1 - low to 1 + high, where high 0 is low, and a bound.
func Clipped(low, high, dual float64) Clipping {
	return Clipping{ClipBounds{ClipRange: low, ClipHigh: high}, DualBound{DualClip: dual}}
}

// DefaultClipping is Flow-GRPO's, for the steps of a sampler.
func DefaultClipping() Clipping { return Clipped(1e-4, 0, 0) }

// DefaultTokenClipping is PPO's, for tokens.
func DefaultTokenClipping() Clipping { return Clipped(0.2, 0, 0) }

// Bounds are how far a ratio may fall below 1, and rise above it.
func (c Clipping) Bounds() (low, high float64) {
	if c.ClipHigh == 0 {
		return c.ClipRange, c.ClipRange
	}
	return c.ClipRange, c.ClipHigh
}

// checkRange reports a range that lets every ratio fall.
func (c Clipping) checkRange(usual string, report func(key, problem, hint string)) {
	if c.ClipRange >= 1 {
		report("clip_range", "at 1 or more a ratio is never too low", usual+" is usual")
	}
}

// checkDual reports a bound that cuts every loss. of is a thing that has an advantage.
func (c Clipping) checkDual(of string, report func(key, problem, hint string)) {
	if c.DualClip != 0 && c.DualClip <= 1 {
		report("dual_clip", "at 1 or less the loss of every "+of+" with a negative advantage is cut", "3 is usual")
	}
}

func (c Clipping) bounds() bounds {
	low, high := c.Bounds()
	return bounds{low: low, high: high, dual: c.DualClip}
}

// bounds are how far a ratio may go; samples of pictures and tokens share them.
type bounds struct{ low, high, dual, cap float64 }

// bounded is a loss, and its slope by the ratio.
type bounded struct {
	value, slope  float64
	clipped, dual bool
}

func (b bounds) loss(a, r float64) bounded {
	v := bounded{value: -a * r, slope: -a}
	if b.cap > 0 && r > b.cap {
		v = bounded{value: -a * b.cap}
	}
	within := min(max(r, 1-b.low), 1+b.high)
	if cut := -a * within; cut > v.value {
		v = bounded{value: cut, clipped: true}
		if within == r { // a cap may lie inside the clip
			v.slope = -a
		}
	}
	if a < 0 && b.dual > 0 && -a*b.dual < v.value {
		v.value, v.slope, v.dual = -a*b.dual, 0, true
	}
	return v
}

// The clipped policy objective (PPO; Schulman et al., 2017) over the decisions of one step,
// and every published variant of it as options:
//
//	L = mean of w·clipped(A, r)·scale + weight·scale²·KL + change·½ mean (lp - old)², all over Parts
//	clipped(A, r) = max(-A·r, -A·clip(r, 1-low, 1+high)); where A < 0 at most -A·Dual
//
//	r       the forms of the ratio: ratio.go
//	A       the advantage cut to [-AdvLow, AdvHigh], times NoiseWeight·τ (TempFlow: 2.25), τ the
//	        step's deviation
//	w       optional rollout weights; the mean stays that of the rows (verl-omni), it is not
//	        divided by the sum of weights
//	scale   1, or LongCat's weight of the step's noise (LongCatScale)
//	KL      the mean of (m - m_ref)²/denominator, or of an estimate from log-probabilities:
//	        kl.go lists the divisors
//	change  MixGRPO's KL, to the weights that rolled
//	Parts   steps and batches whose gradients are summed (DanceGRPO, MixGRPO); flow_grpo takes
//	        the mean of its own losses, which is the same
//
// Several rewards are several results joined by Sum (DanceGRPO's video loss) or one advantage
// (package advantage).
//
// Invariants (tests): gradients agree with finite differences; in the first update after a
// roll every ratio is exactly 1, and value and gradient are the policy gradient's.
type Clip struct {
	Clipping
	RatioForm
	StepWeights
	AdvLow, AdvHigh float64 // both 0: advantages are not cut
	KLWeight        float64
	KLEstimator     string  // "" and "mean": of means; else of log-probabilities
	Parts           float64 // 0: 1
}

// StepWeights are the weights of the terms of a step's loss.
type StepWeights struct {
	NoiseWeight  float64 `toml:"noise_weight" range:"[0,inf)" doc:"advantages times this times the step's deviation (TempFlow: 2.25); 0: as they are"`
	NoiseScale   bool    `toml:"noise_scale" doc:"of flow-sde: losses weigh by the step's noise (LongCat)"`
	ChangeWeight float64 `toml:"change_weight" range:"[0,inf)" doc:"of half the mean squared change of log-probabilities (MixGRPO's KL)"`
}

// DefaultClip is Flow-GRPO's.
func DefaultClip() Clip {
	return Clip{Clipping: DefaultClipping(), RatioForm: DefaultRatioForm(), AdvLow: 5, AdvHigh: 5}
}

// Check reports options that contradict each other or would do nothing.
func (o Clip) Check(report func(key, problem, hint string)) {
	o.checkRange("1e-4", report)
	o.checkDual("sample", report)
	if o.NoiseWeight != 0 && o.NoiseScale {
		report("noise_scale", "noise_weight weighs by the step's noise already", "leave one of them out")
	}
}

// Terms are an objective's inputs, a row a sample. Values common to all rows may be given once.
type Terms struct {
	LogProb, Old, Advantage []float64
	Weight                  []float64   // nil: 1
	Mean, MeanOld, MeanRef  [][]float64 // of transitions; nil where nothing reads them
	KLDenominator           []float64   // of a KL on means
	LogProbRef              []float64   // of a KL on log-probabilities
	Std, SqrtDt             []float64   // of guard: the kernel's deviation, and √Δ
	Deviation               []float64   // of NoiseWeight
	Sigma, SigmaBelow       []float64   // of NoiseScale: of the step, and of the one below 1
}

// Result is a loss and its gradients.
type Result struct {
	Loss, Policy, KL, Change float64
	Ratio, Bias              []float64
	GradLogProb              []float64
	GradMean                 [][]float64 // nil where no term reads the means
	Metrics                  map[string]float64
}

// Of is the objective of some decisions.
func (o Clip) Of(t Terms) (Result, error) {
	if err := o.complete(t); err != nil {
		return Result{}, err
	}
	r := o.ratios(t)
	n, parts := len(t.LogProb), one(o.Parts)
	scale := 1.0
	if o.NoiseScale {
		scale = LongCatScale(t.Sigma, t.SigmaBelow, t.SqrtDt)
	}
	policy := scale * o.guardFactor(t) / parts
	slope := make([]float64, n) // of the loss by each ratio
	for i, ratio := range r.Ratio {
		a := o.cut(t.Advantage[i])
		if o.NoiseWeight != 0 {
			a *= o.NoiseWeight * of(t.Deviation, i)
		}
		v := o.bounds().loss(a, ratio)
		w := policy / float64(n)
		if t.Weight != nil {
			w *= of(t.Weight, i)
		}
		r.Policy += float64(v.value * w)
		slope[i] = v.slope * w
	}
	o.throughRatios(t, &r, slope)
	r.Loss = r.Policy
	if o.KLWeight != 0 {
		addKL(t, &r, o.KLEstimator, o.KLWeight*scale*scale/parts)
	}
	if o.ChangeWeight != 0 {
		o.addChange(t, &r, o.ChangeWeight/parts)
	}
	r.Metrics = o.metrics(t, r.Ratio)
	return r, nil
}

// complete reports missing inputs of an objective.
func (o Clip) complete(t Terms) error {
	n := len(t.LogProb)
	if n == 0 || len(t.Old) != n || len(t.Advantage) != n {
		return fmt.Errorf("%d log-probabilities, %d old ones, %d advantages: a decision has one of each", n, len(t.Old), len(t.Advantage))
	}
	if !slices.Contains([]string{"", "plain", "guard", "guard_batch", "guard_plain"}, o.Ratio) {
		return fmt.Errorf("ratio %q is not known: plain, guard, guard_batch and guard_plain are", o.Ratio)
	}
	means := func(m [][]float64) bool { return len(m) == n }
	for _, x := range []struct {
		what    string
		missing bool
	}{
		{"ratio " + o.Ratio + " needs the means of the old policy, deviations and √Δ", o.guarded() && !(means(t.Mean) && means(t.MeanOld) && len(t.Std) > 0 && len(t.SqrtDt) > 0)},
		{"a KL " + t.lacks(o.KLEstimator), o.KLWeight != 0 && t.lacks(o.KLEstimator) != ""},
		{"noise_weight needs the deviations of the steps", o.NoiseWeight != 0 && len(t.Deviation) == 0},
		{"noise_scale needs sigmas and √Δ", o.NoiseScale && (len(t.Sigma) == 0 || len(t.SigmaBelow) == 0 || len(t.SqrtDt) == 0)},
		{"rollout weights are there, but not one a row", t.Weight != nil && len(t.Weight) != n && len(t.Weight) != 1},
	} {
		if x.missing {
			return fmt.Errorf("clip: %s", x.what)
		}
	}
	return nil
}

// cut bounds an advantage.
func (o Clip) cut(a float64) float64 {
	if o.AdvLow == 0 && o.AdvHigh == 0 {
		return a
	}
	return min(max(a, -o.AdvLow), o.AdvHigh)
}

// addChange adds the distance to the weights that rolled.
func (o Clip) addChange(t Terms, r *Result, weight float64) {
	kl, grad := SquaredChange(t.LogProb, t.Old)
	r.Change = kl
	r.Loss += float64(weight * kl)
	for i, g := range grad {
		r.GradLogProb[i] += float64(weight * g)
	}
}

// metrics describe the ratios.
func (o Clip) metrics(t Terms, ratio []float64) map[string]float64 {
	m := map[string]float64{"ratio_mean": average(ratio), "ratio_std": spread(ratio, 1), "ratio_min": slices.Min(ratio), "ratio_max": slices.Max(ratio),
		"clipped": 0, "clipped_high": 0, "clipped_low": 0, "approx_kl": 0, "ppo_kl": 0}
	n := float64(len(ratio))
	low, high := o.Bounds()
	for i, r := range ratio {
		d := t.LogProb[i] - t.Old[i]
		m["approx_kl"] += d * d / 2 / n
		m["ppo_kl"] -= d / n
		above, below := r-1 > high, 1-r > low
		for name, is := range map[string]bool{"clipped_high": above, "clipped_low": below, "clipped": above || below} {
			if is {
				m[name] += 1 / n
			}
		}
	}
	return m
}

// Clip is the objective of the options over a sampler's steps. Advantages were cut by [advantage], and are not cut
// again.
func (o Options) Clip() Clip {
	return Clip{Clipping: o.Clipping, RatioForm: o.RatioForm, StepWeights: o.StepWeights, KLWeight: o.KL.Weight, KLEstimator: o.KL.ofSteps()}
}

// ratioNumbers are the numbers of all ratios of steps, clippedNumbers those of clipped ones.
var (
	ratioNumbers   = []string{"kl", "ratio_mean", "ratio_std", "ratio_min", "ratio_max", "approx_kl", "ppo_kl"}
	clippedNumbers = slices.Concat(ratioNumbers, []string{"clipped", "clipped_high", "clipped_low"})
)

// clippedSteps is a form of the clip of steps.
func clippedSteps(ratio string, needs Needs) *Form {
	return &Form{
		Learns: Transitions, Needs: needs | Advantages | Ratio,
		Options: struct {
			Clipping
			Rectification
			RatioForm
			StepWeights
			MeanOptions
			GuidanceOptions
		}{},
		Set:     func(o *Options) { o.Ratio = ratio },
		Check:   func(o Options, report func(key, problem, hint string)) { o.Clip().Check(report) },
		Words:   rangeWords,
		Numbers: clippedNumbers,
		Steps:   func(o Options) StepLoss { return o.Clip().Of },
	}
}

// ClipObjective is PPO's clip.
var ClipObjective = Objective{
	Name: "clip", Card: "The clipped ratio (PPO, GRPO); clip_high and dual_clip are off unless set.",
	Paper: "PPO (Schulman et al., 2017)", Formula: "max(-A·ratio, -A·clip(ratio, 1-low, 1+high))",
	Cases:    []string{"loss.flow_grpo", "loss.flow_factory", "loss.verl_flow_grpo", "loss.mixgrpo", "loss.dance_two_rewards", "vlm.loss_ppo", "vlm.loss_easyr1", "vlm.loss_openrlhf", "vlm.loss_trl"},
	Pictures: clippedSteps("plain", BareRatio),
	Tokens: &Form{
		Learns: SampledTokens, Needs: Advantages | Ratio | BareRatio | AnswerRatio, Options: Clipping{},
		Set:   func(o *Options) { o.Ratio = "plain" },
		Words: rangeWords,
		Token: func(o TokenLoss, x at, of answer, _ wholeBatch) token {
			d, live := o.logRatio(x, of)
			return o.ofRatio(o.clip(d, x.a, live))
		},
	},
}

// Rectification is Flash-GRPO's weight of decisions; package sde's rectify.go has the formula.
type Rectification struct {
	Rectify bool `toml:"rectify" doc:"of flow-sde and flow-wan: decisions weigh by how little of the gradient their step keeps, 1 on average (Flash-GRPO)"`
}

// Steps weigh by their noise: a step that draws much decides much.
//
//	TempFlow   advantages times 2.25·τ inside the clip (Clip.NoiseWeight); rows of a step share τ
//	LongCat    the whole loss times the mean of √(s/(1-s))/√Δ, its KL times the square of that
//	           (Clip.NoiseScale; GenRL). The noise level η is left out of the weight. At s = 1
//	           the sigma below stands in the denominator. Only Flow-SDE steps are weighed; CPS
//	           ones are not

// LongCatScale is the weight of a step.
func LongCatScale(sigma, below, sqrtDt []float64) float64 {
	sum := 0.0
	for i, s := range sigma {
		under := s
		if s == 1 {
			under = of(below, i)
		}
		sum += math.Sqrt(s/(1-under)) / of(sqrtDt, i)
	}
	return sum / float64(len(sigma))
}
