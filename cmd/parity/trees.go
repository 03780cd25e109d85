package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/darkroom-rl/darkroom/sde"
)

// Trees of samples.

var treeOps = map[string]Op{
	"tree.branch_rollout": treeRollout,
	"tree.fuse":           treeFuse,
	"tree.prune":          treePrune,
	"tree.split_points":   treeSplits,
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
