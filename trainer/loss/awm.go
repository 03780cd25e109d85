package loss

import (
	"fmt"
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// Advantage-weighted matching (Xue et al., 2025): the flow-matching error of a noised sample
// serves as its log-probability. With d = mean (v - (e - x0))²,
//
//	Uniform -d,  t -d·t,  t**2 -d·t²,  huber -(√(d + 1e-10) - 1e-5)·t,
//	ghuber -((d + 1e-10)^p - 1e-10^p)·t/p
//
// and its objective clips ratios of these like any other, over several times of each sample:
//
//	sum_first  one ratio a sample, e^(mean over times of lp - old)
//	exp_first  one ratio a time and sample
//
// plus the distance of velocities to the reference, and to the moving average of the weights.
// Upstream these are unweighted, or over 2·std² (ELBO) with the deviation of AWMDeviation.

// AWMLogProb is the log-probabilities, and their slope by the velocities times w.
func AWMLogProb(t Noised, weighting string, power float64, w []float64) (lp []float64, grad [][]float64, err error) {
	grad = zeros(t.V)
	for i, v := range t.V {
		d, n := 0.0, float64(len(v))
		for e := range v {
			diff := v[e] - t.target(i, e)
			d += diff * diff / n
		}
		time, value, slope := t.Time[i], 0.0, 0.0
		switch weighting {
		case "Uniform":
			value, slope = -d, -1
		case "t":
			value, slope = -d*time, -time
		case "t**2":
			value, slope = -d*time*time, -time*time
		case "huber":
			root := math.Sqrt(d + 1e-10)
			value, slope = -(root-1e-5)*time, -time/(2*root)
		case "ghuber":
			value = -(portable.Pow(d+1e-10, power) - portable.Pow(1e-10, power)) * time / power
			slope = -portable.Pow(d+1e-10, power-1) * time
		default:
			return nil, nil, fmt.Errorf("weighting %q is not known: Uniform, t, t**2, huber and ghuber are", weighting)
		}
		lp = append(lp, value)
		for e := range v {
			grad[i][e] = float64(w[i]*slope) * 2 * (v[e] - t.target(i, e)) / n
		}
	}
	return lp, grad, nil
}

// AWMDeviation is the deviation that goes with a time.
func AWMDeviation(time float64) float64 {
	return 0.7 * math.Sqrt(time/(1-math.Min(math.Max(time, 0), 0.99)))
}

// AWM is the objective over the times of each sample.
type AWM struct {
	Clipping
	AWMOptions
	AdvClip   float64 // advantages are cut to it; 0: not cut
	KLWeight  float64 // of the distance to the reference
	EMAWeight float64 // of the distance to the moving average
}

// AWMOptions are the options that AWM alone has.
type AWMOptions struct {
	AdvMax    float64 `toml:"adv_max" range:"[0,inf)" doc:"of awm: what adv_clip is scaled to; 0: not scaled"`
	Weighting string  `toml:"weighting" enum:"Uniform,t,t**2,huber,ghuber" doc:"of awm: weight of a time"`
	Power     float64 `toml:"power" range:"(0,inf)" doc:"of awm's ghuber: the power of the error"`
	Ratios    string  `toml:"ratios" enum:"sum_first,exp_first" doc:"of awm: one ratio a sample, or one a time"`
	ELBO      bool    `toml:"elbo" doc:"of awm: distances of velocities are over twice the squared deviation of their time"`
}

// DefaultAWMOptions is the published setting; the objective's name also sets adv_max = 1.
func DefaultAWMOptions() AWMOptions {
	return AWMOptions{Weighting: "Uniform", Power: 0.25, Ratios: "sum_first"}
}

// Check reports options that contradict each other or would do nothing. A range of 1, its authors', bounds ratios from
// above alone.
func (o AWM) Check(report func(key, problem, hint string)) {
	o.checkDual("sample", report)
}

// AWMTerms are its inputs: log-probabilities [times][samples], and velocities a row a pair of both, times first.
type AWMTerms struct {
	LogProb, Old  [][]float64
	Advantage     []float64
	V, VRef, VEMA [][]float64
	Std           []float64 // of ELBO
}

// AWMResult is a loss with its parts.
type AWMResult struct {
	Loss, Policy, KL, EMA float64
	GradLogProb, GradV    [][]float64
}

// AWMSums are an objective's, as far as times were seen.
type AWMSums struct {
	values  [][]float64 // of each sample, a time each, or one
	kl, ema float64
}

// Together reports whether a sample's times have one ratio, so that all of them are seen at once.
func (o AWM) Together() bool { return o.Ratios == "sum_first" }

// Of is the objective.
func (o AWM) Of(t AWMTerms) (r AWMResult, err error) {
	var sums AWMSums
	gradLogProb, gradV, err := o.Add(&sums, t, len(t.LogProb))
	if err != nil {
		return r, err
	}
	r = o.Sums(sums)
	r.GradLogProb, r.GradV = gradLogProb, gradV
	return r, nil
}

// Sums are the result's, of all times.
func (o AWM) Sums(s AWMSums) (r AWMResult) {
	for _, values := range s.values {
		policy := 0.0
		for _, v := range values {
			policy += v
		}
		r.Policy += policy
	}
	r.KL, r.EMA = s.kl, s.ema
	r.Loss = r.Policy + float64(o.KLWeight*r.KL)
	r.Loss += float64(o.EMAWeight * r.EMA)
	return r
}

// Add adds some times, of `times` in all, and is the gradients at their log-probabilities and velocities.
func (o AWM) Add(sums *AWMSums, t AWMTerms, times int) (gradLogProb, gradV [][]float64, err error) {
	if len(t.LogProb) == 0 || len(t.Old) != len(t.LogProb) || len(t.V) != len(t.LogProb)*len(t.Advantage) {
		return nil, nil, fmt.Errorf("awm: %d times of %d samples, %d of the old policy, %d velocities: a time and sample has one of each", len(t.LogProb), len(t.Advantage), len(t.Old), len(t.V))
	}
	if o.Ratios != "sum_first" && o.Ratios != "exp_first" {
		return nil, nil, fmt.Errorf("awm: ratios %q is not known: sum_first and exp_first are", o.Ratios)
	}
	if o.Together() && len(t.LogProb) != times {
		return nil, nil, fmt.Errorf("awm: %d of %d times: a sample's ratio is of all of them", len(t.LogProb), times)
	}
	if sums.values == nil {
		sums.values = make([][]float64, len(t.Advantage))
	}
	gradLogProb, gradV = zeros(t.LogProb), zeros(t.V)
	for i, a := range t.Advantage {
		if o.AdvClip > 0 {
			a = min(max(a, -o.AdvClip), o.AdvClip)
		}
		if o.AdvMax != 0 {
			a *= o.AdvMax / o.AdvClip
		}
		sums.values[i] = append(sums.values[i], o.sample(t, i, a, gradLogProb, times)...)
	}
	denominator := []float64{1}
	if o.ELBO {
		denominator = nil
		for _, s := range t.Std {
			denominator = append(denominator, 2*s*s)
		}
	}
	for _, x := range []struct {
		weight float64
		ref    [][]float64
		out    *float64
	}{{o.KLWeight, t.VRef, &sums.kl}, {o.EMAWeight, t.VEMA, &sums.ema}} {
		if x.ref != nil {
			addTimes(gradV, addKLMeans(x.out, t.V, x.ref, denominator, times*len(t.Advantage)), x.weight)
		}
	}
	return gradLogProb, gradV, nil
}

// sample is one sample's loss at some times, of `all` in all, and fills in the gradients.
func (o AWM) sample(t AWMTerms, i int, a float64, grad [][]float64, all int) (values []float64) {
	times, n := float64(all), float64(len(t.Advantage))
	if o.Ratios == "sum_first" {
		mean := 0.0
		for k := range t.LogProb {
			mean += (t.LogProb[k][i] - t.Old[k][i]) / times
		}
		ratio := portable.Exp(mean)
		v := o.bounds().loss(a, ratio)
		for k := range grad {
			grad[k][i] = v.slope * ratio / times / n
		}
		return []float64{v.value / n}
	}
	for k := range t.LogProb {
		ratio := portable.Exp(t.LogProb[k][i] - t.Old[k][i])
		v := o.bounds().loss(a, ratio)
		values = append(values, v.value/n/times)
		grad[k][i] = v.slope * ratio / n / times
	}
	return values
}

// noisedAWM is AWM: ratios of matching errors; the old errors are those of the weights that rolled.
func noisedAWM(options Options, _ int) NoisedLoss {
	o := options.AWM()
	return func(times int, groups []int, advantages []float64) Walk {
		var sums AWMSums
		return Walk{
			Next: func(n Noised) ([][]float64, error) {
				ones := repeated([]float64{1}, len(n.V))
				before := n
				before.V = n.VOld
				old, _, err := AWMLogProb(before, o.Weighting, o.Power, ones)
				if err != nil {
					return nil, err
				}
				lp, slope, err := AWMLogProb(n, o.Weighting, o.Power, ones)
				if err != nil {
					return nil, err
				}
				terms := AWMTerms{Advantage: advantages, V: n.V, VRef: n.VRef, VEMA: n.EMA}
				for row := 0; row < len(lp); row += len(groups) {
					terms.LogProb, terms.Old = append(terms.LogProb, lp[row:row+len(groups)]), append(terms.Old, old[row:row+len(groups)])
				}
				for _, time := range n.Time {
					terms.Std = append(terms.Std, AWMDeviation(time))
				}
				byLogProb, grad, err := o.Add(&sums, terms, times)
				if err != nil {
					return nil, err
				}
				for i := range grad {
					for e := range grad[i] {
						grad[i][e] += float64(byLogProb[i/len(groups)][i%len(groups)] * slope[i][e])
					}
				}
				return grad, nil
			},
			Result: func() WalkResult {
				v := o.Sums(sums)
				return WalkResult{Loss: v.Loss, Metrics: map[string][]float64{"kl": {v.KL}}}
			},
		}
	}
}

// AWM is the objective of the options.
func (o Options) AWM() AWM {
	return AWM{Clipping: o.Clipping, AWMOptions: o.AWMOptions, AdvClip: o.AdvClip, KLWeight: o.KL.Weight, EMAWeight: o.KL.EMAWeight}
}

// AWMObjective is advantage-weighted matching.
var AWMObjective = Objective{
	Name: "awm", Card: "Advantage-weighted matching: the ratio of matching errors on noised samples (AWM).",
	Paper: "Advantage-weighted matching (Xue et al., 2025)", Formula: "clip, of e^(d_old - d)", Cases: []string{"loss.awm", "loss.awm_log_prob"},
	Pictures: &Form{
		Learns: NoisedSamples, Needs: Advantages | Flow | OldWeights | ReferenceIfWeighted | AverageIfWeighted,
		Options: struct {
			Clipping
			Forward
			AdvantageCut
			AWMOptions
			GuidanceOptions
			AverageOptions
		}{},
		Set:      func(o *Options) { o.AdvMax = 1 },
		Check:    func(o Options, report func(key, problem, hint string)) { o.AWM().Check(report) },
		Words:    rangeWords,
		Numbers:  []string{"kl"},
		Noised:   noisedAWM,
		Together: func(o Options) bool { return o.AWM().Together() },
	},
}
