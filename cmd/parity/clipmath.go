package main

import (
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/diffusion"
	"github.com/darkroom-rl/darkroom/portable"
	"github.com/darkroom-rl/darkroom/sde"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

var clipMathOps = map[string]Op{
	// Steps, rollouts and objectives of policies of clips.
	"ema.crd_decay":          func(c *Case) { limit, d := crdRamp(c.String("type")); putDecays(c, limit, d) },
	"guidance.two_experts":   twoExperts,
	"kl.adaptive":            adaptiveKL,
	"loss.crd":               lossCRD,
	"loss.flash_grpo":        lossWan,
	"loss.flow_grpo_wan":     lossWan,
	"rollout.wan_sde":        rolloutWan,
	"sched.unipc_wan":        schedWan,
	"sde.flow_factory_unipc": flowFactoryUniPC,
	"sde.flow_grpo_wan":      flowWan,
	"weight.flash_grpo":      flashWeight,
	"window.flash_grpo":      flashWindow,
}

// flowWan: where the case is of evaluation, the mean is scored and Euler's step is taken.
func flowWan(c *Case) {
	b := newBatch(c, step(sde.FlowWanSolver.Step(1, sde.Epsilon)))
	b.orEuler()
	index := c.Ints("index")
	at := func(i int) int { return index[min(i, len(index)-1)] }
	b.perRow("std_dev_t", func(i int) float64 { return b.rows[i].Noise / math.Sqrt(b.rows[i].From-b.rows[i].To) })
	b.perRow("coefficient", func(i int) float64 { return sde.Rectified(sde.FlowWan(b.s, at(i), 1)) })
}

// flowFactoryUniPC: the step's sigmas may be whole timesteps over 1000.
func flowFactoryUniPC(c *Case) {
	if !c.Bool("use_timesteps") {
		newBatch(c, factoryStep(c)).put(nil)
		return
	}
	whole := sde.Schedule{Sigmas: append(each(c.Floats("timesteps"), func(t float64) float64 { return t / 1000 }), 0)}
	row := factoryStep(c)
	newBatch(c, func(_ sde.Schedule, step int) sde.Row { return row(whole, step) }).put(nil)
}

func schedWan(c *Case) {
	now, old := sde.FlowUniPC(c.Float("shift"), c.Int("steps"), false), sde.FlowDPM(c.Float("shift"), c.Int("steps"), false)
	c.Put("sigmas", now.Sigmas, "timesteps", now.Timesteps, "sigmas_old", old.Sigmas, "timesteps_old", old.Timesteps)
}

func flashWindow(c *Case) {
	u, seen, index := c.Floats("u"), map[float64]int{}, []int{}
	all := times(c.Int("steps"), func(i int) int { return i })
	for _, prompt := range c.Floats("prompts") {
		if _, ok := seen[prompt]; !ok {
			seen[prompt] = sde.OneOf(all, u[len(seen)])
		}
		index = append(index, seen[prompt])
	}
	c.Put("index", index)
}

// flashWeight: upstream's table has four digits.
func flashWeight(c *Case) {
	s := sde.Schedule{Sigmas: c.Floats("sigmas")}
	var weights, table, times []float64
	for _, i := range c.Ints("index") {
		w := sde.Rectified(sde.FlowWan(s, i, 1))
		weights, table = append(weights, w), append(table, math.RoundToEven(w*1e4)/1e4)
		times = append(times, math.Trunc(1000*s.Sigmas[i]))
	}
	c.Put("coefficient", weights, "table", table, "timesteps", times)
}

// linear is a case's policy for one expert: A·x + b·t/1000 + an embedding, along the last axis.
func linear(c *Case, second bool, x []float64, t float64, embedding []float64) []float64 {
	names := []string{"A", "b"}
	if second {
		names = []string{"A2", "b2"}
	}
	a, b := c.Floats(names[0]), c.Floats(names[1])
	d, v := len(b), make([]float64, len(x))
	for i := range x {
		k := i % d
		v[i] = b[k]*t/1000 + embedding[k]
		for j := range d {
			v[i] += a[k*d+j] * x[i-k+j]
		}
	}
	return v
}

// guided is one row's output of the policy after guidance by a scale.
func guided(c *Case, second bool, x []float64, t, scale float64, combines bool, embedding, negative []float64) []float64 {
	v := linear(c, second, x, t, embedding)
	if !combines {
		return v
	}
	return diffusion.Guide(linear(c, second, x, t, negative), v, scale)
}

func twoExperts(c *Case) {
	x, times := c.Array("x"), c.Floats("timesteps")
	rows, embeds, negatives := samples(x), samples(c.Array("embeds")), samples(c.Array("negative_embeds"))
	ratio, second, cfg2 := c.Float("boundary_ratio"), false, numberOr(c, "cfg_2", -1)
	var all []float64
	for i, row := range rows {
		second = ratio >= 0 && times[i] < math.Trunc(1000*ratio)
		scale := c.Float("cfg")
		if second && cfg2 >= 0 {
			scale = cfg2
		}
		all = append(all, guided(c, second, row, times[i], scale, scale > 1, embeds[i], negatives[i])...)
	}
	c.Put("v", Array{x.Shape, all})
}

func rolloutWan(c *Case) {
	z, s := c.Array("z"), sde.Schedule{Sigmas: c.Floats("sigmas")}
	now, embeds, negatives := samples(z), samples(c.Array("embeds")), samples(c.Array("negative_embeds"))
	noise, only := samples(c.Array("noise")), c.Int("stochastic_step")
	ratio, g, g2 := c.Float("boundary_ratio"), c.Float("guidance_scale"), c.Float("guidance_scale_2")
	kept, lps, experts := make([][]float64, len(now)), make([][]float64, len(now)), []int{}
	for i, row := range now {
		kept[i] = slices.Clone(row)
	}
	for step, t := range c.Floats("timesteps") {
		second, scale := ratio >= 0 && t < 1000*ratio, g
		if second && g2 >= 0 {
			scale = g2
		}
		experts = append(experts, map[bool]int{false: 1, true: 2}[second])
		row := sde.FlowWan(s, step, 1)
		quiet := c.Bool("deterministic") || only >= 0 && step != only
		for i, x := range now {
			var h sde.History
			h.Push(x, guided(c, second, x, t, scale, g > 1, embeds[i], negatives[i]))
			mean := row.Mean(&h)
			next := row.Draw(mean, noise[step][i*len(x):(i+1)*len(x)])
			if quiet {
				next = sde.Euler(s, step).Mean(&h)
			}
			if step == only {
				kept[i] = slices.Clone(x)
			}
			if only < 0 || step == only {
				kept[i], lps[i] = append(kept[i], next...), append(lps[i], row.LogProb(mean, next))
			}
			now[i] = next
		}
	}
	c.Put("final", Array{z.Shape, flat(now)})
	c.Put("latents", Array{append([]int{z.Shape[0], len(kept[0]) / len(now[0])}, z.Shape[1:]...), flat(kept)})
	c.Put("log_probs", Array{[]int{len(now), len(lps[0])}, flat(lps)}, "expert", experts)
}

// lossWan is the clipped objective over 2τ², with Flash-GRPO's weights where the case has them.
func lossWan(c *Case) {
	t, o := terms(c), clipOptions(c)
	for i, g := range t.Std {
		t.KLDenominator = append(t.KLDenominator, 2*g*t.SqrtDt[i]*g*t.SqrtDt[i])
	}
	o.KLWeight = c.Float("beta")
	if c.Has("coefficient") {
		t.Deviation = c.Floats("coefficient")
		sum := 0.0
		for _, w := range t.Deviation {
			sum += w
		}
		o.NoiseWeight = float64(len(t.Deviation)) / sum
		c.Put("w", o.NoiseWeight)
	}
	r := must(o.Of(t))
	if o.KLWeight == 0 && t.MeanRef != nil {
		r.KL, r.GradMean = klOnly(t)
	}
	putClip(c, r)
}

func adaptiveKL(c *Case) {
	a := adaptiveWeight{Target: c.Float("target"), Horizon: c.Float("horizon"), Alpha: c.Float("ema_alpha"), Least: c.Float("beta_min"), Most: c.Float("beta_max"), Weight: c.Float("init_beta")}
	var beta, average []float64
	n := c.Floats("n")
	for i, kl := range c.Floats("kl") {
		a.step(kl, n[i])
		beta, average = append(beta, a.Weight), append(average, a.Average)
	}
	c.Put("beta", beta, "ema", average)
}

func lossCRD(c *Case) {
	o := loss.CRD{CRDOptions: loss.CRDOptions{Match: c.String("loss_type"), Temperature: c.Float("weight_temp"), Adaptive: c.Bool("adaptive_logp"), KLByReward: c.Bool("reward_adaptive_kl")},
		Low: -c.Float("adv_lo"), High: c.Float("adv_hi"), Beta: c.Float("crd_beta"), KLWeight: c.Float("kl_beta"), OthersR: c.Floats("other_r"), OthersAdv: c.Floats("other_a")}
	v := c.Array("v")
	part := func(name string) [][]float64 { return samples(Array{v.Shape, c.Floats(name)}) }
	r := o.Of(loss.Noised{Clean: part("x0"), Noise: part("noise"), V: samples(v), VOld: part("v_old"), VRef: part("v_ref")}, c.Floats("advantages"))
	for name, x := range map[string]any{"r_theta": r.Reward, "adv01": r.Share, "policy_loss": r.Policy, "kl_div": r.Distant, "kl_loss": r.KL, "loss": r.Loss, "grad_v": Array{v.Shape, flat(r.GradV)}} {
		c.Put(name, x)
	}
}

// adaptiveWeight moves the weight of a KL towards a target (Ziegler et al., 2019; Pref-GRPO's
// AdaptiveKLController for Wan):
//
//	average += Alpha·(kl - average), the first taken as it is
//	weight  *= exp((average - Target)/Target · n/Horizon), cut to [Least, Most]
//
// n is how many samples the step had. Without a target the weight stays, and a weight of 0 stays 0. The new
// weight counts from the next step on.
type adaptiveWeight struct {
	Target, Horizon, Alpha, Least, Most float64
	Weight, Average                     float64
	began                               bool
}

// step tells of a step's KL and the number of its samples.
func (a *adaptiveWeight) step(kl, n float64) {
	if !a.began {
		a.Average, a.began = kl, true
	} else {
		a.Average += float64(a.Alpha * (kl - a.Average))
	}
	if a.Target > 0 {
		grown := a.Weight * portable.Exp((a.Average-a.Target)/a.Target*n/math.Max(a.Horizon, 1))
		a.Weight = min(max(grown, a.Least), a.Most)
	}
}
