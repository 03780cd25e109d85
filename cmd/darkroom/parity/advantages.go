package parity

import (
	"sort"

	"github.com/darkroom-rl/darkroom/trainer/advantage"
)

// Advantages of whole samples.

var advantageOps = map[string]Op{
	"adv.consecutive":       advConsecutive,
	"adv.flow_factory_sum":  advFlowFactory,
	"adv.gardo":             advGardo,
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
func byColumn(r Array, f func(column []float64) ([]float64, error)) (Array, error) {
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
		a, err := f(column)
		if err != nil {
			return out, err
		}
		for i, v := range a {
			out.Data[i*cols+c] = v
		}
	}
	return out, nil
}

// updates runs f on every update of a tracker.
func updates(c *Case, f func(u *Case, names []string) (Array, error)) error {
	var all []any
	distinct := map[string]bool{}
	size := 0.0
	for _, u := range c.Subs("updates") {
		names := u.Strings("groups")
		a, err := f(u, names)
		if err != nil {
			return err
		}
		all = append(all, map[string]any{"advantages": a})
		for _, n := range names {
			distinct[n] = true
		}
		size = advantage.Measure(idsOf(names), make([]float64, len(names))).MeanSize
	}
	c.Put("updates", all)
	c.Put("mean_group_size", size)
	c.Put("distinct_prompts", len(distinct))
	return nil
}

func advTracker(c *Case) error {
	return updates(c, func(u *Case, names []string) (Array, error) {
		ids, rewards := idsOf(names), u.Array("rewards")
		mode := text(c, "mode", "max")
		return byColumn(rewards, func(r []float64) ([]float64, error) {
			switch mode {
			case "rwr":
				return r, nil
			case "sft":
				return advantage.Best(ids, r), nil
			case "dpo":
				return advantage.Ends(ids, r), nil
			case "max":
				o := numpyGroup(false)
				o.Scale = "max_group"
				return o.Of(ids, r)
			}
			return numpyGroup(c.Bool("global_std")).Of(ids, r)
		})
	})
}

func advGardo(c *Case) error {
	return updates(c, func(u *Case, names []string) (Array, error) {
		f := u.Array("features")
		var rows [][]float64
		for x := f.Data; len(x) > 0; x = x[f.Shape[1]:] {
			rows = append(rows, x[:f.Shape[1]])
		}
		return byColumn(u.Array("rewards"), func(r []float64) ([]float64, error) { return advantage.Gardo(idsOf(names), r, rows), nil })
	})
}

func advHistory(c *Case) error {
	h := &advantage.History{Size: c.Int("buffer_size"), Min: c.Int("min_count")}
	return updates(c, func(u *Case, names []string) (Array, error) {
		return byColumn(u.Array("rewards"), func(r []float64) ([]float64, error) { return h.Update(names, r), nil })
	})
}

func advVerlOmni(c *Case) error {
	o := advantage.Options{Over: "group", Baseline: "mean", Scale: "group", DDOF: 1, Eps: numberOr(c, "eps", 1e-4), EpsMode: "add", Singleton: "zero"}
	switch {
	case !c.Bool("normalise"):
		o.Scale = "none"
	case c.Bool("global_std"):
		o.Scale = "batch"
	}
	a, err := o.Of(idsOf(c.Strings("groups")), c.Floats("rewards"))
	if err != nil {
		return err
	}
	c.Put("advantages", a)
	if c.Has("clip") {
		c.Put("r", advantage.Probability(a, c.Float("clip"), "all"))
	}
	return nil
}

func putAdvantages(c *Case, a []float64, err error) error {
	c.Put("advantages", a)
	return err
}

func advConsecutive(c *Case) error {
	r := c.Floats("rewards")
	a, err := torchGroup(c.Float("trimmed_ratio")).Of(advantage.Consecutive(len(r), c.Int("group_size")), r)
	return putAdvantages(c, a, err)
}

func advGlobal(c *Case) error {
	r, o := c.Floats("rewards"), torchGroup(0)
	o.Over = "batch"
	a, err := o.Of(make([]int, len(r)), r)
	return putAdvantages(c, a, err)
}

func advRLOO(c *Case) error {
	o := advantage.Options{Over: "group", Baseline: "others", Scale: "none", Singleton: "raw"}
	a, err := o.Of(idsOf(c.Strings("groups")), c.Floats("rewards"))
	return putAdvantages(c, a, err)
}

func advProbability(c *Case) error {
	a := c.Array("advantages")
	c.Put("r", Array{a.Shape, advantage.Probability(a.Data, c.Float("clip"), c.String("mode"))})
	return nil
}

func advZeroStd(c *Case) error {
	s := advantage.Measure(idsOf(c.Strings("groups")), c.Floats("rewards"))
	c.Put("zero_std_ratio", s.Dead)
	c.Put("mean_std", s.Deviation)
	c.Put("all_correct_ratio", s.AllOne)
	c.Put("all_wrong_ratio", s.AllZero)
	return nil
}

func advZeroMask(c *Case) error {
	a := c.Array("advantages")
	cols := len(a.Data) / a.Shape[0]
	var rows [][]float64
	for x := a.Data; len(x) > 0; x = x[cols:] {
		rows = append(rows, x[:cols])
	}
	nonzero, count := advantage.NonZero(rows, c.Int("num_batches"))
	bits := make([]int, len(nonzero))
	for i, b := range nonzero {
		if b {
			bits[i] = 1
		}
	}
	c.Put("nonzero", bits)
	c.Put("count", count)
	return nil
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

func advSeveral(c *Case) error {
	rewards, weights := named(c)
	how := "rewards"
	if c.String("mix") == "advantage_aggr" {
		how = "advantages"
	}
	s := advantage.Several{Each: torchGroup(c.Float("trimmed_ratio")), How: how}
	a, err := s.Of(advantage.Consecutive(len(rewards[0]), c.Int("group_size")), rewards, weights)
	return putAdvantages(c, a, err)
}

// floored is Flow-Factory's: deviation over n, at least 1e-6.
func floored(scale string) advantage.Options {
	return advantage.Options{Over: "group", Baseline: "mean", Scale: scale, Eps: 1e-6, EpsMode: "floor"}
}

func advFlowFactory(c *Case) error {
	rewards, weights := named(c)
	scale := "group"
	if c.Bool("global_std") {
		scale = "batch"
	}
	a, err := advantage.Several{Each: floored(scale), How: "rewards"}.Of(idsOf(c.Strings("groups")), rewards, weights)
	return putAdvantages(c, a, err)
}

func advGDPOFlowFactory(c *Case) error {
	rewards, weights := named(c)
	after := floored("group")
	after.Over = "batch"
	a, err := advantage.Several{Each: floored("group"), How: "gdpo", After: &after}.Of(idsOf(c.Strings("groups")), rewards, weights)
	return putAdvantages(c, a, err)
}

func advGDPO(c *Case) error {
	r, weights := c.Array("rewards"), c.Floats("weights")
	var rewards [][]float64
	for k := range weights {
		var column []float64
		for i := k; i < len(r.Data); i += len(weights) {
			v := r.Data[i]
			if v != v { // upstream trains on what is missing as 0
				v = 0
			}
			column = append(column, v)
		}
		rewards = append(rewards, column)
	}
	each := advantage.Options{Over: "group", Baseline: "mean", Scale: "group", DDOF: 1, Eps: 1e-4, EpsMode: "add"}
	after := each
	after.Over = "batch"
	a, err := advantage.Several{Each: each, How: "gdpo", After: &after}.Of(advantage.Consecutive(r.Shape[0], c.Int("group_size")), rewards, weights)
	return putAdvantages(c, a, err)
}

func selectBest(c *Case) error {
	v, m := c.Floats("vq_advantages"), c.Floats("mq_advantages")
	for i := range v {
		v[i] = c.Float("vq_coef")*v[i] + c.Float("mq_coef")*m[i]
	}
	c.Put("selected", advantage.BestOfN(v, c.Int("best_of_n")))
	return nil
}

func selectPairs(c *Case) error {
	flat := []int{}
	for _, p := range advantage.Pairs(idsOf(c.Strings("groups")), c.Floats("scores")) {
		flat = append(flat, p[0], p[1])
	}
	c.Put("pairs", flat)
	return nil
}

func advWinRate(c *Case) error {
	flat := c.Ints("pairs")
	var pairs [][2]int
	for i := 0; i+1 < len(flat); i += 2 {
		pairs = append(pairs, [2]int{flat[i], flat[i+1]})
	}
	c.Put("win_rate", advantage.WinRate(c.Int("items"), pairs, c.Floats("outcome"), true))
	return nil
}
