package main

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/sde"
)

var stepOps = map[string]Op{
	// Single stochastic steps, a step of the schedule for each row of the batch.
	"sde.branch_split":       branchSplit,
	"sde.dance":              dance,
	"sde.dance_unnormalised": dance,
	"sde.ddim":               ddim,
	"sde.dpm":                dpm,
	"sde.euler_stochastic":   func(c *Case) { newBatch(c, sde.EulerStochastic).put(nil) },
	"sde.flow_cps":           func(c *Case) { newBatch(c, stepOf(c, sde.CPSSolver)).put(nil) },
	"sde.flow_ddim":          func(c *Case) { newBatch(c, stepOf(c, sde.FlowDDIMSolver).dense(sde.Gaussian)).put(nil) },
	"sde.flow_factory":       func(c *Case) { newBatch(c, factoryStep(c)).put(nil) },
	"sde.flow_sde":           func(c *Case) { newBatch(c, stepOf(c, sde.FlowSDESolver)).put(nil) },
	"sde.mixgrpo_flow":       func(c *Case) { newBatch(c, stepOf(c, sde.FlowSDESolver)).orEuler() },
	"sde.tempflow_branch":    tempflowBranch,
	"sde.truncated":          truncated,
	"sde.verl_omni":          verlOmni,

	// Whole trajectories with a toy network: A x + b s + c on the last axis.
	"rollout.mixgrpo":            rolloutMixGRPO,
	"solver.ddim":                solverDDIM,
	"solver.ddpm":                solverDDPM,
	"solver.flow_dpm_multistep":  solverMultistep,
	"solver.flow_dpm_singlestep": solverSinglestep,
	"solver.flow_euler":          func(c *Case) { solve(c, everyStep(c, sde.Euler), c.Floats("sigmas")) },
	"solver.flow_heun":           func(c *Case) { solve(c, everyStep(c, sde.Heun), c.Floats("sigmas")) },
	"solver.flow_unipc":          solverUniPC,
	"solver.nft":                 solverNFT,

	// Trees of samples.
	"tree.branch_rollout": treeRollout,
	"tree.fuse":           treeFuse,
	"tree.prune":          treePrune,
	"tree.split_points":   treeSplits,
}

// A step makes a row of a schedule.
type step func(s sde.Schedule, step int) sde.Row

// stepOf is the step of one of the product's solvers at the case's noise level.
func stepOf(c *Case, solver sde.Solver) step { return solver.Step(c.Float("eta"), sde.Epsilon) }

// with is a step whose rows are changed.
func (f step) with(change func(r *sde.Row)) step {
	return func(s sde.Schedule, step int) sde.Row {
		r := f(s, step)
		change(&r)
		return r
	}
}

// dense is a step whose rows have another density.
func (f step) dense(density sde.Density) step {
	return f.with(func(r *sde.Row) { r.Density = density })
}

// dance: where the case says ODE the mean is Euler's, with the density of the stochastic
// step; one of the two upstreams draws noise all the same.
func dance(c *Case) {
	density := map[string]sde.Density{"sde.dance": sde.Gaussian, "sde.dance_unnormalised": sde.Unnormalised}[c.Op]
	published, stochastic := stepOf(c, sde.DanceSolver).dense(density), c.Bool("sde")
	b := newBatch(c, func(s sde.Schedule, step int) sde.Row {
		r := published(s, step)
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

// orEuler puts the drawn sample, and Euler's step where the case is deterministic.
func (b *batch) orEuler() {
	if b.Bool("deterministic") {
		b.put(b.euler)
	} else {
		b.put(nil)
	}
}

func truncated(c *Case) {
	o := sde.DefaultSolverOptions()
	o.Noise, o.NoiseLimit = c.Float("eta"), c.Float("clip")
	newBatch(c, map[bool]sde.Solver{true: sde.CPSSolver, false: sde.FlowSDESolver}[c.String("kind") == "flow_cps"].Build(o)).orEuler()
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
	splits, scale := c.Int("num_splits"), 1.0
	b := newBatch(c, stepOf(c, sde.DanceSolver).with(func(r *sde.Row) { r.Noise = math.Max(r.Noise, 1e-8) }))
	b.put(b.mean)
	if splits > 1 {
		scale = c.Float("split_noise_scale")
	}
	b.repeated(splits, scale, true)
}

func tempflowBranch(c *Case) {
	b := newBatch(c, stepOf(c, sde.FlowSDESolver))
	b.repeated(c.Int("branches"), 1, false)
	b.perRow("tau", func(i int) float64 { return b.rows[i].Noise })
	b.each("ode", b.euler)
}

func verlOmni(c *Case) {
	density := map[bool]sde.Density{true: sde.Gaussian, false: sde.Unnormalised}[c.Bool("normaliser")]
	switch c.String("kind") {
	case "cps":
		newBatch(c, stepOf(c, sde.CPSSolver)).put(nil)
	case "dance_sde":
		newBatch(c, stepOf(c, sde.DanceSolver).dense(density)).put(nil)
	default:
		newBatch(c, stepOf(c, sde.FlowSDESolver).dense(density)).put(nil)
	}
}

// factoryStep is Flow-Factory's step of a kind.
func factoryStep(c *Case) step {
	switch c.String("kind") {
	case "ODE":
		return stepOf(c, sde.EulerSolver)
	case "CPS":
		return stepOf(c, sde.CPSSolver)
	case "Dance-SDE":
		return stepOf(c, sde.DanceSolver).with(func(r *sde.Row) { r.KLDeviation = c.Float("eta") })
	}
	return stepOf(c, sde.FlowSDESolver)
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

// batch is the case's rows.
type batch struct {
	*Case
	x     Array
	width int // of a row
	s     sde.Schedule
	rows  []sde.Row
}

// newBatch reads x and sigmas, and makes each row's step.
func newBatch(c *Case, step step) *batch {
	b := &batch{Case: c, x: c.Array("x")}
	n := b.x.Shape[0]
	b.width = len(b.x.Data) / max(n, 1)
	c.Given("sigmas", &b.s.Sigmas)
	index := c.Ints("index")
	for i := range n {
		b.rows = append(b.rows, step(b.s, index[min(i, len(index)-1)]))
	}
	return b
}

func (b *batch) row(name string, i int) []float64 {
	return b.Array(name).Data[i*b.width : (i+1)*b.width]
}

// history is the history of row i.
func (b *batch) history(i int) *sde.History {
	var h sde.History
	h.Push(b.row("x", i), b.row("v", i))
	return &h
}

// each puts an array of x's shape.
func (b *batch) each(name string, f func(i int) []float64) {
	var data []float64
	for i := range b.rows {
		data = append(data, f(i)...)
	}
	b.Put(name, Array{Shape: b.x.Shape, Data: data})
}

// perRow puts a number a row.
func (b *batch) perRow(name string, f func(i int) float64) {
	b.Put(name, times(len(b.rows), func(i int) float64 { return f(i) }))
}

func (b *batch) mean(i int) []float64 { return b.rows[i].Mean(b.history(i)) }

// put puts the common outputs of the kernels. next is the sample of a row, by default drawn.
func (b *batch) put(next func(i int) []float64) {
	if next == nil {
		next = func(i int) []float64 { return b.rows[i].Draw(b.mean(i), b.row("noise", i)) }
	}
	b.each("prev_sample", next)
	b.each("mean", b.mean)
	b.each("x0", func(i int) []float64 { return b.rows[i].Clean.Apply(b.history(i)) })
	b.perRow("tau", func(i int) float64 { return b.rows[i].Noise })
	b.perRow("std_returned", func(i int) float64 { return b.rows[i].KLDeviation })
	b.perRow("sqrt_dt", func(i int) float64 { return math.Sqrt(b.rows[i].From - b.rows[i].To) })
	b.perRow("log_prob", func(i int) float64 { return b.rows[i].LogProb(b.mean(i), next(i)) })
	if !b.Has("prev_given") {
		return
	}
	b.perRow("log_prob_given", func(i int) float64 { return b.rows[i].LogProb(b.mean(i), b.row("prev_given", i)) })
	w := b.Floats("w")
	b.each("grad_v", func(i int) []float64 {
		slope := b.rows[i].Slope(b.history(i))
		g := b.rows[i].LogProbGrad(b.mean(i), b.row("prev_given", i))
		for k := range g {
			g[k] *= slope[k] * w[i]
		}
		return g
	})
}

// field is the toy network; time is its time input at each step.
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
func everyStep(c *Case, row step) []sde.Row {
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

// rolloutMixGRPO: the window's steps are stochastic, the others Euler's, and Flash solves the steps after the window
// on fewer points.
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

func treeSplits(c *Case) {
	c.Put("split_points", splitPoints(text(c, "points", ""), int(numberOr(c, "rounds", 0)), c.Int("steps")))
}

// readTree is the tree that a case lists.
func readTree(c *Case) *sde.Tree {
	t := &sde.Tree{Parent: c.Ints("parent"), Step: c.Ints("step"), Depth: c.Ints("depth")}
	c.Given("log_prob", &t.LogProb, "leaves", &t.Leaves)
	return t
}

func treeFuse(c *Case) {
	t := readTree(c)
	r := t.Fuse(c.Floats("leaf_rewards"), c.Bool("prob_weighted"))
	c.Put("reward", r, "advantage", t.DepthAdvantages(r))
}

func treePrune(c *Case) {
	p := sde.Pruning{Slide: flag(c, "depth_pruning_slide"), SlideEvery: c.Int("depth_pruning_slide_interval"), StopDepth: c.Int("depth_pruning_stop_depth"),
		Width: [...]string{"none", "branch", "ends"}[c.Int("width_pruning_mode")], Ratio: c.Float("width_pruning_ratio"), Until: c.Float("pruning_step_ratio"),
		Mixed: flag(c, "mix_ode_sde_tree"), MixedWindow: c.Int("mix_sde_window_size")}
	for _, s := range strings.Split(text(c, "depth_pruning", ""), ",") {
		if n, err := strconv.Atoi(strings.TrimSpace(s)); err == nil {
			p.Depths = append(p.Depths, n)
		}
	}
	c.Put("kept", p.Kept(readTree(c), c.Floats("advantage"), c.Ints("split_points"), c.Int("sampling_steps"), c.Int("train_step"), c.Int("max_steps")))
}

// treeRollout grows a tree with the toy network.
func treeRollout(c *Case) {
	s := sde.Schedule{Sigmas: c.Floats("sigmas")}
	time := c.Floats("model_timesteps")
	for i := range time {
		time[i] /= 1000
	}
	z := c.Array("z")
	g := sde.Growth{Splits: c.Ints("split_points"), Children: 2, Scale: c.Float("split_noise_scale"),
		Stochastic: func(step int) sde.Row { return sde.Dance(s, step, c.Float("eta"), sde.Gaussian) }, Deterministic: func(step int) sde.Row { return sde.Euler(s, step) }}
	if c.Bool("mixed") {
		g.Draws = func(step int) bool {
			return sde.InMixedWindow(step, s.Steps(), c.Int("mix_window"), c.Int("mix_stride"))
		}
	}
	noise, drawn := noiseOf(c), 0
	t, states, clean := g.Run(s.Steps(), z.Data, field(c, time), func() []float64 { drawn++; return noise(drawn - 1) })
	paths := each(t.Leaves, func(n int) float64 { return pathLogProb(t, n) })
	drew := make([]int, len(t.SDE))
	for i, d := range t.SDE {
		if d {
			drew[i] = 1
		}
	}
	c.Put("parent", t.Parent, "step", t.Step, "depth", t.Depth, "is_sde", drew, "log_prob", t.LogProb)
	c.Put("latents", statesOf(z.Shape, states), "leaves", t.Leaves, "leaf_x0", statesOf(z.Shape, clean))
	c.Put("leaf_path_log_prob", paths)
}

// pathLogProb is the sum of the edges' log-probabilities from the root to a node.
func pathLogProb(t *sde.Tree, node int) float64 {
	sum := 0.0
	for ; node > 0; node = t.Parent[node] {
		sum += t.LogProb[node]
	}
	return sum
}

// splitPoints are where a tree splits: a list "0,3,6", each cut to the last step and sorted,
// doubles kept; or, without a list, i·(T/rounds).
func splitPoints(list string, rounds, steps int) []int {
	points := []int{}
	if list == "" {
		for i := range rounds {
			points = append(points, min(i*(steps/rounds), steps-1))
		}
		return points
	}
	for _, s := range strings.Split(list, ",") {
		n, wrong := strconv.Atoi(strings.TrimSpace(s))
		if wrong != nil {
			failf("split points %q: %q is not a whole number", list, s)
		}
		points = append(points, min(max(n, 0), steps-1))
	}
	slices.Sort(points)
	return points
}
