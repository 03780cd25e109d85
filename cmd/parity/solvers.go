package main

import (
	"github.com/darkroom-rl/darkroom/sde"
)

// Whole trajectories with a toy network: A x + b s + c on the last axis.

var solverOps = map[string]Op{
	"rollout.mixgrpo":            rolloutMixGRPO,
	"solver.ddim":                solverDDIM,
	"solver.ddpm":                solverDDPM,
	"solver.flow_dpm_multistep":  solverMultistep,
	"solver.flow_dpm_singlestep": solverSinglestep,
	"solver.flow_euler":          func(c *Case) { solve(c, everyStep(c, sde.Euler), c.Floats("sigmas")) },
	"solver.flow_heun":           func(c *Case) { solve(c, everyStep(c, sde.Heun), c.Floats("sigmas")) },
	"solver.flow_unipc":          solverUniPC,
	"solver.nft":                 solverNFT,
}

// field is the toy network; time is what it is told at each step.
func field(c *Case, time []float64) sde.Network {
	a, b, bias := c.Array("A"), c.Floats("b"), c.Floats("c")
	d := len(bias)
	return func(x []float64, step int) []float64 {
		out := make([]float64, len(x))
		for at := 0; at < len(x); at += d {
			for i := range d {
				sum := b[i]*time[step] + bias[i]
				for j := range d {
					sum += a.Data[i*d+j] * x[at+j]
				}
				out[at+i] = sum
			}
		}
		return out
	}
}

// noiseOf is the case's draws, one a step.
func noiseOf(c *Case) func(step int) []float64 {
	noise := c.Array("noise")
	n := len(noise.Data) / noise.Shape[0]
	return func(step int) []float64 { return noise.Data[step*n : (step+1)*n] }
}

// solve runs rows and puts the trajectory.
func solve(c *Case, rows []sde.Row, time []float64) {
	x := c.Array("x")
	noise := func(int) []float64 { return nil }
	if c.Has("noise") {
		noise = noiseOf(c)
	}
	c.Put("trajectory", statesOf(x.Shape, sde.Run(rows, x.Data, field(c, time), noise).States))
}

func statesOf(shape []int, all [][]float64) Array {
	a := Array{Shape: append([]int{len(all)}, shape...)}
	for _, s := range all {
		a.Data = append(a.Data, s...)
	}
	return a
}

// everyStep is a solver's rows over the case's sigmas.
func everyStep(c *Case, row func(s sde.Schedule, step int) sde.Row) []sde.Row {
	s := sde.Schedule{Sigmas: c.Floats("sigmas")}
	return times(s.Steps(), func(step int) sde.Row { return row(s, step) })
}

func solverMultistep(c *Case) {
	config := c.Sub("config")
	m := sde.Multistep{Order: 2, LowerOrderFinal: true, AsPublished: true}
	config.Given("solver_order", &m.Order, "lower_order_final", &m.LowerOrderFinal, "euler_at_final", &m.EulerAtFinal)
	m.Heun = config.Has("solver_type") && config.String("solver_type") == "heun"
	m.SDE = config.Has("algorithm_type") && config.String("algorithm_type") == "sde-dpmsolver++"
	solve(c, everyStep(c, m.Row), c.Floats("sigmas"))
}

func solverSinglestep(c *Case) {
	config := c.Sub("config")
	m := sde.Singlestep{Orders: c.Ints("order_list"), Heun: config.Has("solver_type") && config.String("solver_type") == "heun"}
	solve(c, everyStep(c, m.Row), c.Floats("sigmas"))
}

func solverUniPC(c *Case) {
	config := c.Sub("config")
	u := sde.UniPC{Order: 2}
	config.Given("solver_order", &u.Order)
	u.BH1 = config.Has("solver_type") && config.String("solver_type") == "bh1"
	config.Given("disable_corrector", &u.Off)
	solve(c, everyStep(c, u.Row), c.Floats("sigmas"))
}

func solverNFT(c *Case) {
	row := sde.Euler
	switch s := c.String("solver"); s {
	case "dpm2":
		row = sde.Multistep{Order: 2, EulerAtFinal: true}.Row
	case "ddim", "dpm1", "flow", "euler":
	default:
		failf("solver %q is not known", s)
	}
	solve(c, everyStep(c, row), c.Floats("sigmas"))
}

// perStep is a variance-preserving schedule whose steps are given one by one.
func perStep(c *Case, row func(s sde.Schedule) sde.Row) ([]sde.Row, []float64) {
	a, to, steps := c.Floats("alpha_prod"), c.Floats("alpha_prod_prev"), c.Floats("timesteps")
	var rows []sde.Row
	var time []float64
	for i := range a {
		r := row(sde.Schedule{Alpha: a[i : i+1], AlphaPrev: to[i : i+1], Timesteps: steps[i : i+1]})
		rows, time = append(rows, r), append(time, steps[i]/1000)
	}
	return rows, time
}

func solverDDIM(c *Case) {
	p := sde.Prediction(c.String("prediction_type"))
	rows, time := perStep(c, func(s sde.Schedule) sde.Row { return must(sde.DDIM(s, 0, 0, p, false)) })
	solve(c, rows, time)
}

func solverDDPM(c *Case) {
	large := c.String("variance_type") == "fixed_large"
	rows, time := perStep(c, func(s sde.Schedule) sde.Row { return must(sde.DDPM(s, 0, sde.Epsilon, large)) })
	solve(c, rows, time)
}

// rolloutMixGRPO: the window's steps are stochastic, the others Euler's, and Flash solves
// what follows the window on fewer points.
func rolloutMixGRPO(c *Case) {
	s, window := sde.Schedule{Sigmas: c.Floats("sigmas")}, c.Ints("window")
	eta, kernel := c.Float("eta"), c.String("kernel")
	plan := sde.Plan{Window: window, Inside: func(s sde.Schedule, step int) sde.Row {
		if kernel == "flow_sde" {
			return sde.FlowSDE(s, step, eta, 0)
		}
		return sde.Dance(s, step, eta, sde.Unnormalised)
	}, Outside: sde.Euler}
	if c.Has("dpm") {
		d := c.Sub("dpm")
		f := &sde.Flash{Ratio: 1, Shift: 1, Solver: sde.Multistep{Order: d.Int("order"), Heun: d.String("solver_type") == "heun", LowerOrderFinal: true}}
		if f.All = d.String("apply") == "all"; !f.All {
			f.Ratio, f.Shift = d.Float("compress_ratio"), d.Float("shift")
		}
		plan.Flash = f
	}
	s, rows := plan.Rows(s)
	time := c.Floats("model_timesteps")
	for i := range time {
		time[i] /= 1000
	}
	z := c.Array("z")
	t := sde.Run(rows, z.Data, field(c, time), noiseOf(c))
	final := t.States[len(t.States)-1]
	if c.Bool("drop_last_sample") {
		final = t.Clean[len(t.Clean)-1]
	}
	lps := each(window, func(step int) float64 { return t.LogProb[step] })
	c.Put("sigmas_used", s.Sigmas, "all_latents", statesOf(z.Shape[1:], t.States))
	c.Put("final_latents", Array{z.Shape, final}, "window_log_probs", lps)
}
