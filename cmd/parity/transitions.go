package main

import (
	"math"

	"github.com/darkroom-rl/darkroom/sde"
)

// Single stochastic steps, a step of the schedule for each row of the batch.

var transitionOps = map[string]Op{
	"sde.branch_split":       branchSplit,
	"sde.dance":              dance,
	"sde.dance_unnormalised": dance,
	"sde.ddim":               ddim,
	"sde.dpm":                dpm,
	"sde.euler_stochastic":   func(c *Case) { newBatch(c, sde.EulerStochastic).put(nil) },
	"sde.flow_cps":           flowStep,
	"sde.flow_ddim":          flowDDIM,
	"sde.flow_factory":       flowFactory,
	"sde.flow_sde":           flowStep,
	"sde.mixgrpo_flow":       mixgrpoFlow,
	"sde.tempflow_branch":    tempflowBranch,
	"sde.truncated":          truncated,
	"sde.verl_omni":          verlOmni,
}

func flowStep(c *Case) {
	eta, cps := c.Float("eta"), c.Op == "sde.flow_cps"
	newBatch(c, func(s sde.Schedule, step int) sde.Row {
		if cps {
			return sde.CPS(s, step, eta)
		}
		return sde.FlowSDE(s, step, eta, 0)
	}).put(nil)
}

// dance: where the case says ODE the mean is Euler's, with the density of the stochastic
// step; one of the two upstreams draws noise all the same.
func dance(c *Case) {
	eta, density := c.Float("eta"), sde.Gaussian
	if c.Op == "sde.dance_unnormalised" {
		density = sde.Unnormalised
	}
	stochastic := c.Bool("sde")
	b := newBatch(c, func(s sde.Schedule, step int) sde.Row {
		r := sde.Dance(s, step, eta, density)
		if !stochastic {
			r.Next = sde.Euler(s, step).Next
		}
		return r
	})
	if stochastic || density == sde.Gaussian {
		b.put(nil)
	} else {
		b.put(b.mean)
	}
}

// euler is the deterministic step of a row.
func (b *batch) euler(i int) []float64 {
	index := b.Ints("index")
	return sde.Euler(b.s, index[min(i, len(index)-1)]).Mean(b.history(i))
}

func mixgrpoFlow(c *Case) {
	eta := c.Float("eta")
	b := newBatch(c, func(s sde.Schedule, step int) sde.Row { return sde.FlowSDE(s, step, eta, 0) })
	if c.Bool("deterministic") {
		b.put(b.euler)
	} else {
		b.put(nil)
	}
}

func truncated(c *Case) {
	eta, clip, kind := c.Float("eta"), c.Float("clip"), c.String("kind")
	b := newBatch(c, func(s sde.Schedule, step int) sde.Row {
		if kind == "flow_cps" {
			return sde.CPS(s, step, eta)
		}
		return sde.FlowSDE(s, step, eta, clip)
	})
	if c.Bool("deterministic") {
		b.put(b.euler)
	} else {
		b.put(nil)
	}
}

// repeated puts branches of every row, each with its own noise.
func (b *batch) repeated(branches int, scale float64, clean bool) {
	noise := b.Array("noise")
	var prev, means, x0s, lps []float64
	for i, r := range b.rows {
		mean := b.mean(i)
		for k := range branches {
			z := times(b.width, func(e int) float64 { return scale * noise.Data[(i*branches+k)*b.width+e] })
			next := r.Draw(mean, z)
			prev, means, lps = append(prev, next...), append(means, mean...), append(lps, r.LogProb(mean, next))
			if clean {
				x0s = append(x0s, r.Clean.Apply(b.history(i))...)
			}
		}
	}
	shape := append([]int{len(b.rows) * branches}, b.x.Shape[1:]...)
	b.Put("prev_sample", Array{shape, prev}, "mean", Array{shape, means}, "x0", Array{shape, x0s}, "log_prob", lps)
}

func branchSplit(c *Case) {
	eta, splits, scale := c.Float("eta"), c.Int("num_splits"), 1.0
	b := newBatch(c, func(s sde.Schedule, step int) sde.Row {
		r := sde.Dance(s, step, eta, sde.Gaussian)
		r.Noise = math.Max(r.Noise, 1e-8)
		return r
	})
	b.put(func(i int) []float64 { return b.mean(i) })
	if splits > 1 {
		scale = c.Float("split_noise_scale")
	}
	b.repeated(splits, scale, true)
}

func tempflowBranch(c *Case) {
	eta := c.Float("eta")
	b := newBatch(c, func(s sde.Schedule, step int) sde.Row { return sde.FlowSDE(s, step, eta, 0) })
	b.repeated(c.Int("branches"), 1, false)
	b.perRow("tau", func(i int) float64 { return b.rows[i].Noise })
	b.each("ode", b.euler)
}

func flowDDIM(c *Case) {
	eta := c.Float("eta")
	newBatch(c, func(s sde.Schedule, step int) sde.Row {
		r := sde.FlowDDIM(s, step, eta)
		r.Density = sde.Gaussian
		return r
	}).put(nil)
}

func verlOmni(c *Case) {
	eta, kind, density := c.Float("eta"), c.String("kind"), sde.Unnormalised
	if c.Bool("normaliser") {
		density = sde.Gaussian
	}
	newBatch(c, func(s sde.Schedule, step int) sde.Row {
		switch kind {
		case "cps":
			return sde.CPS(s, step, eta)
		case "dance_sde":
			return sde.Dance(s, step, eta, density)
		}
		r := sde.FlowSDE(s, step, eta, 0)
		r.Density = density
		return r
	}).put(nil)
}

func flowFactory(c *Case) {
	eta, kind := c.Float("eta"), c.String("kind")
	newBatch(c, func(s sde.Schedule, step int) sde.Row {
		switch kind {
		case "ODE":
			return sde.Euler(s, step)
		case "CPS":
			return sde.CPS(s, step, eta)
		case "Dance-SDE":
			r := sde.Dance(s, step, eta, sde.Gaussian)
			r.KLDeviation = eta
			return r
		}
		return sde.FlowSDE(s, step, eta, 0)
	}).put(nil)
}

func ddim(c *Case) {
	a, to := c.Floats("alpha_prod"), c.Floats("alpha_prod_prev")
	eta, p, clip := c.Float("eta"), sde.Prediction(c.String("prediction_type")), c.Bool("clip_sample")
	b := &batch{Case: c, x: c.Array("x")}
	b.width = len(b.x.Data) / b.x.Shape[0]
	for i := range a {
		r := must(sde.DDIM(sde.Schedule{Alpha: a[i : i+1], AlphaPrev: to[i : i+1]}, 0, eta, p, clip))
		r.Density = sde.Gaussian
		b.rows = append(b.rows, r)
	}
	b.put(nil)
}

// dpm: the history is given as predictions of the clean sample, which are latents whose
// output is zero.
func dpm(c *Case) {
	m := sde.Multistep{Order: c.Int("order"), Heun: c.String("solver_type") == "heun", SDE: true, AsPublished: true}
	switch a := c.String("algorithm"); a {
	case "dpmsolver++":
	case "dpmsolver":
		m.Grows = true
	default:
		failf("algorithm %q is not known", a)
	}
	b := newBatch(c, m.Row)
	past := func(i int) *sde.History {
		var h sde.History
		for _, name := range []string{"m2", "m1"} {
			if c.Has(name) {
				h.Push(b.row(name, i), make([]float64, b.width))
			}
		}
		h.Push(b.row("x", i), b.row("v", i))
		return &h
	}
	mean := func(i int) []float64 { return b.rows[i].Mean(past(i)) }
	next := func(i int) []float64 { return b.rows[i].Draw(mean(i), b.row("noise", i)) }
	b.each("prev_sample", next)
	b.each("x0", func(i int) []float64 { return b.rows[i].Clean.Apply(past(i)) })
	b.perRow("log_prob", func(i int) float64 { return b.rows[i].LogProb(mean(i), next(i)) })
}
