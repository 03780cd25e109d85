package main

import (
	"math"

	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// Objectives over samples that are noised anew, whose gradient is at the velocity; and those over a
// reward's own gradient.

var noisedLossOps = map[string]Op{
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

// noisedTerms are a forward-process case's.
func noisedTerms(c *Case) loss.Noised {
	var t loss.Noised
	for name, to := range map[string]*[][]float64{"x0": &t.Clean, "noise": &t.Noise, "v": &t.V, "v_old": &t.VOld, "v_ref": &t.VRef, "v_ema": &t.EMA} {
		c.Given(name, to)
	}
	c.Given("t", &t.Time)
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
	std := each(t.Time, loss.AWMDeviation)
	c.Put("log_prob", lp, "std", std)
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
