package main

import (
	"math"

	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

var lossOps = map[string]Op{
	// Objectives over decisions.
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

	// Objectives over samples that are noised anew, whose gradient is at the velocity; and those over a
	// reward's own gradient.
	"align.direct":      alignDirect,
	"loss.awm":          lossAWM,
	"loss.awm_log_prob": lossAWMLogProb,
	"loss.dgpo":         lossDGPO,
	"loss.dpo":          lossDPO,
	"loss.nft":          lossNFT,
	"loss.nft_r":        lossNFT,
	"loss.reward_hinge": lossHinge,
	"loss.weighted_fm":  lossWeightedFlow,
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
	c.Given("advantages", &t.Advantage, "mean", &t.Mean, "mean_old", &t.MeanOld, "mean_ref", &t.MeanRef)
	c.Given("std", &t.Std, "sqrt_dt", &t.SqrtDt, "is_weights", &t.Weight)
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

// noisedTerms are a forward-process case's.
func noisedTerms(c *Case) loss.Noised {
	var t loss.Noised
	c.Given("x0", &t.Clean, "noise", &t.Noise, "t", &t.Time, "v", &t.V, "v_old", &t.VOld, "v_ref", &t.VRef, "v_ema", &t.EMA)
	return t
}

func putGradV(c *Case, grad [][]float64) { c.Put("grad_v", Array{c.Array("v").Shape, flat(grad)}) }

func lossNFT(c *Case) {
	o := loss.NFT{ImplicitOptions: loss.ImplicitOptions{Beta: c.Float("beta")}, AdvantageCut: loss.AdvantageCut{AdvClip: c.Float("adv_clip")}, KLWeight: c.Float("kl_coef")}
	var probability []float64
	if c.Has("r") {
		probability = c.Floats("r")
	} else {
		probability = advantage.Probability(c.Floats("advantages"), o.AdvClip, c.String("mode"))
		c.Put("r", probability)
	}
	r := o.Of(noisedTerms(c), probability)
	c.Put("policy_loss", r.Policy, "kl_loss", r.KL, "ref_kl_loss", r.KL, "loss", r.Loss, "total_loss", r.Loss)
	c.Put("old_deviate", r.OldDistance)
	mean := func(x []float64) (m float64) {
		for _, v := range x {
			m += v / float64(len(x))
		}
		return m
	}
	c.Put("reward_prob_mean", mean(probability))
	if c.Op == "loss.nft" {
		c.Put("positive_loss", r.Positive, "negative_loss", r.Negative)
	} else {
		c.Put("positive_loss", mean(r.Positive), "negative_loss", mean(r.Negative))
	}
	putGradV(c, r.GradV)
}

func lossAWMLogProb(c *Case) {
	t := noisedTerms(c)
	lp, grad := must2(loss.AWMLogProb(t, c.String("weighting"), numberOr(c, "power", 1), c.Floats("w")))
	c.Put("log_prob", lp, "std", each(t.Time, loss.AWMDeviation))
	putGradV(c, grad)
}

func lossAWM(c *Case) {
	clip := clipOptions(c)
	o := loss.AWM{Clipping: clip.Clipping, AdvClip: clip.AdvHigh, KLWeight: c.Float("beta"), EMAWeight: c.Float("ema_beta"),
		AWMOptions: loss.AWMOptions{Ratios: c.String("loss_type"), AdvMax: max(c.Float("advantage_max"), 0), ELBO: c.String("kl_weight") == "ELBO"}}
	lp := c.Array("log_prob")
	// Velocities are [times, samples, ...]: a row a pair of both.
	rows := func(name string) [][]float64 {
		a := c.Array(name)
		return samples(Array{append([]int{a.Shape[0] * a.Shape[1]}, a.Shape[2:]...), a.Data})
	}
	r := must(o.Of(loss.AWMTerms{LogProb: samples(lp), Old: samples(c.Array("old_log_prob")), Advantage: c.Floats("advantages"),
		V: rows("v"), VRef: rows("v_ref"), VEMA: rows("v_ema"), Std: c.Floats("std")}))
	c.Put("policy_loss", r.Policy, "kl_loss", r.KL, "ema_kl_loss", r.EMA, "loss", r.Loss)
	c.Put("grad_log_prob", Array{lp.Shape, flat(r.GradLogProb)})
	putGradV(c, r.GradV)
}

func lossDPO(c *Case) {
	t := noisedTerms(c)
	pairs := neighbours(len(t.V) / 2)
	if c.String("layout") == "halves" {
		pairs = halves(len(t.V) / 2)
	}
	r := loss.DPO(t, pairs, c.Float("beta"))
	c.Put("inside", r.Inside, "loss", r.Loss, "implicit_acc", r.Accuracy, "margins", r.Margin)
	putGradV(c, r.GradV)
}

func lossWeightedFlow(c *Case) {
	l, grad := loss.WeightedFlow(noisedTerms(c), c.Floats("weights"))
	c.Put("loss", l)
	putGradV(c, grad)
}

func lossDGPO(c *Case) {
	o := loss.DGPO{Beta: c.Float("beta"), GroupSize: c.Int("group_size")}
	if c.Has("clip") {
		if v := c.Floats("clip"); len(v) == 2 {
			o.ClipFar, o.ClipRange, o.ClipHigh = true, -v[0], v[1]
		}
	}
	l, grad := o.Of(noisedTerms(c), c.Floats("advantages"), c.Ints("group"))
	c.Put("loss", l)
	putGradV(c, grad)
}

func alignDirect(c *Case) {
	sigmas := c.Floats("sigmas")
	a, b := sigmas[c.Int("t_base")], sigmas[c.Int("t_start")]
	if c.Int("inversion") != 0 {
		a, b = b, a
	}
	x0 := c.Array("x0")
	noisy := directNoisy(x0.Data, c.Floats("noise"), a)
	clean, slope := directClean(noisy, c.Floats("v"), c.Floats("noise"), a, b)
	grad := c.Floats("grad_out")
	for i := range grad {
		grad[i] *= slope
	}
	c.Put("noisy", Array{x0.Shape, noisy}, "x0_rec", Array{x0.Shape, clean}, "grad_v", Array{x0.Shape, grad})
}

func lossHinge(c *Case) {
	l, grad := rewardHinge(c.Floats("reward"), c.Float("margin"), math.Max(c.Float("accumulation"), 1e-300))
	c.Put("loss", l, "grad_reward", grad)
}

// halves are the pairs of n winners followed by their losers.
func halves(n int) (pairs [][2]int) {
	for i := range n {
		pairs = append(pairs, [2]int{i, i + n})
	}
	return pairs
}

// neighbours are the pairs of n winners, each before its loser.
func neighbours(n int) (pairs [][2]int) {
	for i := range n {
		pairs = append(pairs, [2]int{2 * i, 2*i + 1})
	}
	return pairs
}

// Direct alignment (the SRPO of Shen et al., 2025, for diffusion: one step of a noised
// picture is undone with the noise that is known, and a reward's gradient flows back):
//
//	noisy = a·e + (1-a)·x0,  x0' = (noisy + (b - a)·v - b·e)/(1-b)
//
// where the step goes from sigma a to b.

// directNoisy is the noised picture.
func directNoisy(clean, noise []float64, a float64) []float64 {
	return eachAt(clean, func(i int, c float64) float64 { return float64(a*noise[i]) + float64((1-a)*c) })
}

// directClean is the recovered picture, and its slope by the velocity.
func directClean(noisy, v, noise []float64, a, b float64) (clean []float64, slope float64) {
	clean = make([]float64, len(noisy))
	for i, x := range noisy {
		clean[i] = (x + float64((b-a)*v[i]) - float64(b*noise[i])) / (1 - b)
	}
	return clean, (b - a) / (1 - b)
}

// rewardHinge is mean of max(margin - reward, 0) over accumulation, and its gradient.
func rewardHinge(rewards []float64, margin, accumulation float64) (loss float64, grad []float64) {
	grad = make([]float64, len(rewards))
	n := float64(len(rewards)) * accumulation
	for i, r := range rewards {
		loss += math.Max(margin-r, 0) / n
		if margin > r {
			grad[i] = -1 / n
		}
	}
	return loss, grad
}
