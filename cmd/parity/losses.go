package main

import "github.com/darkroom-rl/darkroom/trainer/loss"

// Objectives over decisions.

var lossOps = map[string]Op{
	"loss.dance_two_rewards":  lossDance,
	"loss.flow_factory":       lossClip,
	"loss.flow_grpo":          lossFlowGRPO,
	"loss.guard_flow_factory": lossGuard,
	"loss.guard_flow_grpo":    lossGuard,
	"loss.kl_mean":            lossKLMean,
	"loss.longcat":            lossLongCat,
	"loss.mixgrpo":            lossMixGRPO,
	"loss.tempflow":           lossTempFlow,
	"loss.verl_dppo":          lossDPPO,
	"loss.verl_flow_grpo":     lossClip,
	"loss.verl_guard":         lossGuard,
}

// samples are an array's rows over its first axis.
func samples(a Array) [][]float64 {
	n := a.Shape[0]
	if n == 0 {
		return nil
	}
	width := len(a.Data) / n
	return times(n, func(i int) []float64 { return a.Data[i*width : (i+1)*width] })
}

func flat(rows [][]float64) (all []float64) {
	for _, r := range rows {
		all = append(all, r...)
	}
	return all
}

// clipOptions are the ranges that a case gives: one number, or two with their signs.
func clipOptions(c *Case) loss.Clip {
	pair := func(name string) (low, high float64) {
		if !c.Has(name) {
			return 0, 0
		}
		v := c.Floats(name)
		if len(v) == 1 {
			return v[0], v[0]
		}
		return -v[0], v[1]
	}
	var o loss.Clip
	o.ClipRange, o.ClipHigh = pair("clip_range")
	o.AdvLow, o.AdvHigh = pair("adv_clip")
	return o
}

func terms(c *Case) loss.Terms {
	t := loss.Terms{LogProb: c.Floats("log_prob"), Old: c.Floats("old_log_prob")}
	c.Given("advantages", &t.Advantage)
	for name, to := range map[string]*[][]float64{"mean": &t.Mean, "mean_old": &t.MeanOld, "mean_ref": &t.MeanRef} {
		c.Given(name, to)
	}
	for name, to := range map[string]*[]float64{"std": &t.Std, "sqrt_dt": &t.SqrtDt, "is_weights": &t.Weight} {
		c.Given(name, to)
	}
	return t
}

// putClip puts an objective's results under the names that any of the cases has.
func putClip(c *Case, r loss.Result) {
	c.Put("ratio", r.Ratio, "policy_loss", r.Policy, "kl_loss", r.KL, "loss", r.Loss, "grad_log_prob", r.GradLogProb)
	if r.GradMean != nil {
		c.Put("grad_mean", Array{c.Array("mean").Shape, flat(r.GradMean)})
	}
	for ours, theirs := range map[string]string{"approx_kl": "approx_kl", "clipped": "clipfrac", "ppo_kl": "ppo_kl", "ratio_mean": "ratio_mean", "ratio_std": "ratio_std",
		"clipped_high": "pg_clipfrac_higher", "clipped_low": "pg_clipfrac_lower"} {
		c.Put(theirs, r.Metrics[ours])
	}
	c.Put("pg_clipfrac", r.Metrics["clipped"])
}

func lossClip(c *Case) {
	putClip(c, must(clipOptions(c).Of(terms(c))))
}

// squaresTimes is k·x².
func squaresTimes(k float64, x []float64) []float64 {
	return each(x, func(v float64) float64 { return k * v * v })
}

func lossFlowGRPO(c *Case) {
	t, o := terms(c), clipOptions(c)
	t.KLDenominator, o.KLWeight = squaresTimes(2, t.Std), c.Float("beta")
	r := must(o.Of(t))
	if o.KLWeight == 0 {
		r.KL, r.GradMean = klOnly(t)
	}
	putClip(c, r)
}

// klOnly is a KL that the loss does not weigh.
func klOnly(t loss.Terms) (float64, [][]float64) {
	kl, grad := loss.KLMeans(t.Mean, t.MeanRef, t.KLDenominator)
	for _, row := range grad {
		clear(row)
	}
	return kl, grad
}

func lossTempFlow(c *Case) {
	t, o := terms(c), clipOptions(c)
	tau := c.Floats("tau")
	t.Deviation, t.KLDenominator, o.KLWeight, o.NoiseWeight = tau, squaresTimes(2, tau), c.Float("beta"), 2.25
	putClip(c, must(o.Of(t)))
}

func lossLongCat(c *Case) {
	t, o := terms(c), clipOptions(c)
	o.KLWeight = c.Float("beta")
	scale := 1.0
	if c.String("kind") == "flow_sde" {
		t.Sigma, t.SigmaBelow, o.NoiseScale = c.Floats("sigma"), c.Floats("sigma_1"), true
		scale = loss.LongCatScale(t.Sigma, t.SigmaBelow, t.SqrtDt)
		for i, s := range t.Std {
			t.KLDenominator = append(t.KLDenominator, 2*s*s*t.SqrtDt[i]*t.SqrtDt[i])
		}
	} else {
		t.KLDenominator = []float64{1}
	}
	r := must(o.Of(t))
	r.Policy /= scale // upstream logs it without
	putClip(c, r)
}

func lossGuard(c *Case) {
	t, o := terms(c), clipOptions(c)
	o.Ratio = map[string]string{"loss.guard_flow_grpo": "guard_batch", "loss.verl_guard": "guard", "loss.guard_flow_factory": "guard_plain"}[c.Op]
	if c.Has("beta") {
		o.KLWeight = c.Float("beta")
		g := 0.0
		for _, s := range t.Std {
			g += s / float64(len(t.Std))
		}
		t.KLDenominator = []float64{2 * g * g}
	}
	r := must(o.Of(t))
	putClip(c, r)
	if o.Ratio == "guard_batch" && len(r.Bias) > 0 {
		c.Put("ratio_mean_bias", r.Bias[0])
	}
}

func lossDPPO(c *Case) {
	r := must(loss.DPPO{Threshold: c.Float("threshold"), UseStd: c.Bool("use_std")}.Of(terms(c)))
	c.Put("loss", r.Loss, "grad_log_prob", r.GradLogProb)
	for name, v := range r.Metrics {
		c.Put(name, v)
	}
}

func lossKLMean(c *Case) {
	mean := c.Array("mean")
	kl, grad := loss.KLMeans(samples(mean), samples(c.Array("mean_ref")), squaresTimes(2, c.Floats("std")))
	c.Put("loss", kl, "grad_mean", Array{mean.Shape, flat(grad)})
}

func lossMixGRPO(c *Case) {
	o := clipOptions(c)
	o.Parts = c.Float("accumulation") * c.Float("num_train_steps")
	o.ChangeWeight = c.Float("kl_coeff")
	t := terms(c)
	r := must(o.Of(t))
	change, _ := loss.SquaredChange(t.LogProb, t.Old) // logged whatever its weight
	r.KL = change / o.Parts
	putClip(c, r)
}

func lossDance(c *Case) {
	t, o := terms(c), clipOptions(c)
	o.Parts = c.Float("accumulation") * c.Float("num_train_steps")
	total, grad := 0.0, make([]float64, len(t.LogProb)) // one clipped loss a reward
	for _, name := range []string{"vq", "mq"} {
		t.Advantage = c.Floats("advantages_" + name)
		r := must(o.Of(t))
		w := c.Float(name + "_coef")
		total += float64(w * r.Loss)
		for i, g := range r.GradLogProb {
			grad[i] += float64(w * g)
		}
	}
	c.Put("loss", total, "grad_log_prob", grad)
}
