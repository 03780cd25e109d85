package main

import (
	"math"
	"slices"
	"sort"

	"github.com/darkroom-rl/darkroom/trainer/advantage"
)

// Advantages of whole samples.

var advantageOps = map[string]Op{
	"adv.consecutive":       advConsecutive,
	"adv.flow_factory_sum":  advFlowFactory,
	"adv.gardo":             func(c *Case) { updates(c, advantage.Estimator{Rule: "diversity"}) },
	"adv.gdpo":              advGDPO,
	"adv.gdpo_flow_factory": advGDPOFlowFactory,
	"adv.global":            advGlobal,
	"adv.history":           advHistory,
	"adv.max_group_std":     advTracker,
	"adv.multi_reward":      advSeveral,
	"adv.nft_reward":        advProbability,
	"adv.rloo":              advRLOO,
	"adv.stat_tracker":      advTracker,
	"adv.verl_omni":         advVerlOmni,
	"adv.verl_omni_nft":     advVerlOmni,
	"adv.win_rate":          advWinRate,
	"adv.zero_mask":         advZeroMask,
	"adv.zero_std":          advZeroStd,
	"select.best_of_n":      selectBest,
	"select.dpo_pairs":      selectPairs,
}

// numpyGroup is flow_grpo's: deviation over n, eps added.
func numpyGroup(global bool) advantage.Options {
	o := advantage.Options{Over: "group", Baseline: "mean", Scale: "group", Eps: 1e-4, EpsMode: "add", Singleton: "zero"}
	if global {
		o.Scale = "batch"
	}
	return o
}

// trackedGroup is ddpo-pytorch's: what is compared is a prompt's history.
func trackedGroup() advantage.Options {
	o := numpyGroup(false)
	o.Eps = 1e-6
	return o
}

// torchGroup is DanceGRPO's: deviation over n-1, eps 1e-8.
func torchGroup(trim float64) advantage.Options {
	return advantage.Options{Over: "group", Baseline: "mean", Scale: "group", DDOF: 1, Eps: 1e-8, EpsMode: "add", Trim: trim}
}

// names are texts or numbers that name prompts, as ids.
func idsOf(names []string) []int {
	number, ids := map[string]int{}, make([]int, len(names))
	for i, n := range names {
		if _, ok := number[n]; !ok {
			number[n] = len(number)
		}
		ids[i] = number[n]
	}
	return ids
}

// byColumn applies f to each column of rewards [rows] or [rows, steps].
func byColumn(r Array, f func(column []float64) []float64) Array {
	cols := 1
	for _, d := range r.Shape[1:] {
		cols *= d
	}
	out := Array{r.Shape, make([]float64, len(r.Data))}
	for c := range cols {
		var column []float64
		for i := c; i < len(r.Data); i += cols {
			column = append(column, r.Data[i])
		}
		for i, v := range f(column) {
			out.Data[i*cols+c] = v
		}
	}
	return out
}

// updates runs an estimator on every update of a tracker. Rewards of several steps are
// estimated step by step.
func updates(c *Case, e advantage.Estimator) {
	var all []any
	distinct := map[string]bool{}
	size := 0.0
	for _, u := range c.Subs("updates") {
		names := u.Strings("groups")
		b := advantage.Batch{Groups: idsOf(names), Prompts: names}
		u.Given("features", &b.Features)
		a := byColumn(u.Array("rewards"), func(r []float64) []float64 {
			b.Rewards = [][]float64{r}
			a, s := must2(e.Advantages(b))
			size = s.MeanSize
			return a
		})
		all = append(all, map[string]any{"advantages": a})
		for _, n := range names {
			distinct[n] = true
		}
	}
	c.Put("updates", all, "mean_group_size", size, "distinct_prompts", len(distinct))
}

func advTracker(c *Case) {
	e := advantage.Estimator{Options: numpyGroup(c.Op != "adv.max_group_std" && c.Bool("global_std"))}
	switch text(c, "mode", "max") {
	case "rwr":
		e.Baseline, e.Scale = "none", "none"
	case "sft":
		e.Rule = "best"
	case "dpo":
		e.Rule = "ends"
	case "max":
		e.Scale = "max_group"
	}
	updates(c, e)
}

func advHistory(c *Case) {
	h := &advantage.History{Size: c.Int("buffer_size"), Min: c.Int("min_count")}
	updates(c, advantage.Estimator{Rule: "history", Options: trackedGroup(), History: h})
}

func advVerlOmni(c *Case) {
	o := advantage.Options{Over: "group", Baseline: "mean", Scale: "group", DDOF: 1, Eps: numberOr(c, "eps", 1e-4), EpsMode: "add", Singleton: "zero"}
	switch {
	case !c.Bool("normalise"):
		o.Scale = "none"
	case c.Bool("global_std"):
		o.Scale = "batch"
	}
	a := must(o.Of(idsOf(c.Strings("groups")), c.Floats("rewards")))
	c.Put("advantages", a)
	if c.Has("clip") {
		c.Put("r", advantage.Probability(a, c.Float("clip"), "all"))
	}
}

func advConsecutive(c *Case) {
	r := c.Floats("rewards")
	a := must(torchGroup(c.Float("trimmed_ratio")).Of(consecutive(len(r), c.Int("group_size")), r))
	c.Put("advantages", a)
}

func advGlobal(c *Case) {
	r, o := c.Floats("rewards"), torchGroup(0)
	o.Over = "batch"
	c.Put("advantages", must(o.Of(make([]int, len(r)), r)))
}

func advRLOO(c *Case) {
	o := advantage.Options{Over: "group", Baseline: "others", Scale: "none", Singleton: "raw"}
	c.Put("advantages", must(o.Of(idsOf(c.Strings("groups")), c.Floats("rewards"))))
}

func advProbability(c *Case) {
	a := c.Array("advantages")
	c.Put("r", Array{a.Shape, advantage.Probability(a.Data, c.Float("clip"), c.String("mode"))})
}

func advZeroStd(c *Case) {
	s := advantage.Measure(idsOf(c.Strings("groups")), c.Floats("rewards"))
	c.Put("zero_std_ratio", s.Dead, "mean_std", s.Deviation, "all_correct_ratio", s.AllOne)
	c.Put("all_wrong_ratio", s.AllZero)
}

func advZeroMask(c *Case) {
	a := c.Array("advantages")
	cols := len(a.Data) / a.Shape[0]
	var rows [][]float64
	for x := a.Data; len(x) > 0; x = x[cols:] {
		rows = append(rows, x[:cols])
	}
	nonzero, count := trainedRows(rows, c.Int("num_batches"))
	bits := make([]int, len(nonzero))
	for i, b := range nonzero {
		if b {
			bits[i] = 1
		}
	}
	c.Put("nonzero", bits, "count", count)
}

// named are a case's rewards and weights by name, in one order.
func named(c *Case) (rewards [][]float64, weights []float64) {
	m, _ := c.Raw("rewards").(map[string]any)
	var names []string
	for n := range m {
		names = append(names, n)
	}
	sort.Strings(names)
	r, w := c.Sub("rewards"), c.Sub("weights")
	for _, n := range names {
		rewards, weights = append(rewards, r.Floats(n)), append(weights, w.Float(n))
	}
	return rewards, weights
}

// compared puts the advantages of several rewards.
func compared(c *Case, o advantage.Options, how string, ids []int, rewards [][]float64, weights []float64) {
	e := advantage.Estimator{Options: o, Several: advantage.Several{How: how}}
	a, _ := must2(e.Advantages(advantage.Batch{Groups: ids, Rewards: rewards, Weights: weights}))
	c.Put("advantages", a)
}

func advSeveral(c *Case) {
	rewards, weights := named(c)
	how := "rewards"
	if c.String("mix") == "advantage_aggr" {
		how = "advantages"
	}
	compared(c, torchGroup(c.Float("trimmed_ratio")), how, consecutive(len(rewards[0]), c.Int("group_size")), rewards, weights)
}

// floored is Flow-Factory's: deviation over n, at least 1e-6.
func floored(global bool) advantage.Options {
	o := advantage.Options{Over: "group", Baseline: "mean", Scale: "group", Eps: 1e-6, EpsMode: "floor"}
	if global {
		o.Scale = "batch"
	}
	return o
}

func advFlowFactory(c *Case) {
	rewards, weights := named(c)
	compared(c, floored(c.Bool("global_std")), "rewards", idsOf(c.Strings("groups")), rewards, weights)
}

func advGDPOFlowFactory(c *Case) {
	rewards, weights := named(c)
	compared(c, floored(false), "gdpo", idsOf(c.Strings("groups")), rewards, weights)
}

func advGDPO(c *Case) {
	weights := c.Floats("weights")
	rewards := byReward(c.Array("rewards"))
	for _, r := range rewards {
		for i, v := range r {
			if math.IsNaN(v) { // upstream trains on what is missing as 0
				r[i] = 0
			}
		}
	}
	o := torchGroup(0)
	o.Eps = 1e-4
	compared(c, o, "gdpo", consecutive(len(rewards[0]), c.Int("group_size")), rewards, weights)
}

// byReward are the columns of a matrix.
func byReward(a Array) [][]float64 {
	all := make([][]float64, a.Shape[1])
	for i, v := range a.Data {
		all[i%len(all)] = append(all[i%len(all)], v)
	}
	return all
}

func selectBest(c *Case) {
	v, m := c.Floats("vq_advantages"), c.Floats("mq_advantages")
	for i := range v {
		v[i] = c.Float("vq_coef")*v[i] + c.Float("mq_coef")*m[i]
	}
	c.Put("selected", advantage.BestOfN(v, c.Int("best_of_n")))
}

func selectPairs(c *Case) {
	flat := []int{}
	for _, p := range advantage.Pairs(idsOf(c.Strings("groups")), c.Floats("scores"), 0) {
		flat = append(flat, p[0], p[1])
	}
	c.Put("pairs", flat)
}

func advWinRate(c *Case) {
	flat := c.Ints("pairs")
	var pairs [][2]int
	for i := 0; i+1 < len(flat); i += 2 {
		pairs = append(pairs, [2]int{flat[i], flat[i+1]})
	}
	rates := advantage.WinRate(c.Int("items"), pairs, c.Floats("outcome"), true)
	for i, r := range rates {
		if math.IsNaN(r) { // upstream: what was never compared has lost
			rates[i] = 0
		}
	}
	c.Put("win_rate", rates)
}

// trainedRows are the rows (of samples, by step) whose advantages are not all 0, and how many
// rows are trained where these are filled up with others to a multiple of batches (flow_grpo).
// Rows without advantages are neither.
func trainedRows(advantages [][]float64, batches int) (nonzero []bool, count int) {
	zero := 0
	for _, row := range advantages {
		some := slices.ContainsFunc(row, func(a float64) bool { return a != 0 && !math.IsNaN(a) })
		nonzero = append(nonzero, some)
		switch {
		case some:
			count++
		case !slices.ContainsFunc(row, math.IsNaN):
			zero++
		}
	}
	if batches > 0 && count%batches != 0 {
		if missing := batches - count%batches; zero >= missing {
			count += missing
		}
	}
	return nonzero, count
}

// consecutive is ids of groups of n that stand beside each other.
func consecutive(samples, n int) []int {
	return times(samples, func(i int) int { return i / n })
}
