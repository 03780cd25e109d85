package main

import (
	"errors"
	"math"
	"slices"

	"github.com/darkroom-rl/darkroom/rewards"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
)

// Several rewards into one number or one advantage.

var combineOps = map[string]Op{
	"combine.dancegrpo_video":   combineDance,
	"combine.flow_factory":      combineFlowFactory,
	"combine.flow_grpo":         combineFlowGRPO,
	"combine.mixgrpo_advantage": combineMixAdvantage,
	"combine.mixgrpo_reward":    combineMixReward,
	"combine.pref_grpo":         combinePref,
	"combine.pref_grpo_spec":    combineSpec,
}

// weighted is a combination of rewards by name.
func weighted(names []string, weights []float64) rewards.Combination {
	var c rewards.Combination
	for i, n := range names {
		c.Parts = append(c.Parts, rewards.Part{Name: n, Weight: weights[i]})
	}
	return c
}

// scoresOf are a case's scores in the order of its names; a text stands for a reward that
// failed, and gives nil.
func scoresOf(c *Case) [][]float64 {
	list, _ := c.Raw("scores").([]any)
	var all [][]float64
	for i, scores := range list {
		a, ok := scores.(Array)
		if _, failed := scores.(string); !ok && !failed {
			c.complain("input scores[%d] is neither an array nor a text", i)
		}
		all = append(all, slices.Clone(a.Data))
	}
	if len(all) == 0 || len(all) != len(c.Strings("names")) {
		c.complain("%d scores have %d names", len(all), len(c.Strings("names")))
		return make([][]float64, len(c.Strings("names")))
	}
	return all
}

func combineFlowGRPO(c *Case) {
	names := c.Strings("names")
	keys := append(slices.Clone(names), "avg")
	given := c.Sub("scores")
	var scores [][]float64
	for _, n := range names {
		if n == "geneval" { // upstream reports two more numbers of it, and adds up the soft one
			keys = append(keys, "accuracy", "strict_accuracy")
			scores = append(scores, given.Sub(n).Floats("score"))
			continue
		}
		scores = append(scores, given.Floats(n))
	}
	sum := must(weighted(names, c.Floats("weights")).Of(scores))
	slices.Sort(keys)
	c.Put("avg", sum, "keys", keys)
}

func combineMixReward(c *Case) {
	names, n := c.Strings("names"), c.Int("count")
	scores, fine := scoresOf(c), truths(c, "ok")
	each, eachFine := map[string]any{}, map[string]any{}
	for k, name := range names {
		if scores[k] == nil { // the whole reward failed
			scores[k] = slices.Repeat([]float64{math.NaN()}, n)
		}
		for i := range scores[k] {
			if !fine[k*n+i] {
				scores[k][i] = math.NaN()
			}
		}
		each[name], eachFine[name] = zeroed(scores[k])
	}
	all := weighted(names, c.Floats("weights"))
	all.Shares = true
	sum := must(all.Of(scores))
	weights := must(all.Weights())
	rewarded, there := zeroed(sum)
	c.Put("rewards", rewarded, "successes", there, "weights", weights, "each", each, "each_ok", eachFine)
}

// zeroed is what upstream makes of missing rewards, and which were there.
func zeroed(x []float64) (values []float64, there []int) {
	values, there = slices.Clone(x), make([]int, len(x))
	for i, v := range x {
		if there[i] = 1; math.IsNaN(v) {
			values[i], there[i] = 0, 0
		}
	}
	return values, there
}

func combineMixAdvantage(c *Case) {
	scores, how := scoresOf(c), "rewards"
	if c.String("mix") == "advantage_aggr" {
		how = "advantages"
	}
	o := torchGroup(c.Float("trimmed_ratio"))
	if !c.Bool("use_group") {
		o.Over, o.Trim = "batch", 0
	}
	compared(c, o, how, consecutive(len(scores[0]), c.Int("group")), scores, c.Floats("weights"))
}

func combineFlowFactory(c *Case) {
	how := "rewards"
	if c.String("how") == "gdpo" {
		how = "gdpo"
	}
	compared(c, floored(how == "rewards" && c.Bool("global_std")), how, c.Ints("prompt_ids"), scoresOf(c), c.Floats("weights"))
}

func combineDance(c *Case) {
	vq, mq := c.Floats("vq"), c.Floats("mq")
	ids := consecutive(len(vq), c.Int("group"))
	a := must(torchGroup(0).Of(ids, vq))
	b := must(torchGroup(0).Of(ids, mq))
	total := must(advantage.Several{}.Add([][]float64{a, b}, []float64{c.Float("vq_coef"), c.Float("mq_coef")}))
	c.Put("vq_advantages", a, "mq_advantages", b, "total", total)
}

func combineSpec(c *Case) {
	parts, err := parseSpec(c.String("spec"))
	switch {
	case errors.Is(err, errJSON):
		c.Put("error", "Invalid JSON reward_spec")
	case errors.Is(err, errName):
		c.Put("error", "Invalid reward spec entry")
	case errors.Is(err, errWeight):
		c.Put("error", "could not convert string to float")
	default:
		check(err)
		weights := []any{}
		for _, p := range parts {
			weights = append(weights, []any{p.Name, p.Weight})
		}
		c.Put("weights", weights)
	}
}

// combinePref is Pref-GRPO's dispatcher: rewards with dimensions are compared dimension by
// dimension, and their advantages blended.
func combinePref(c *Case) {
	scores := map[string][]float64{}
	for k, s := range scoresOf(c) {
		scores[c.Strings("names")[k]] = s
	}
	o := torchGroup(0)
	if !c.Bool("use_group") {
		o.Over = "batch"
	}
	of := func(name string) []float64 {
		r, ok := scores[name]
		if !ok {
			failf("reward %q has a weight but no scores", name)
		}
		return must(o.Of(consecutive(len(r), c.Int("group")), r))
	}
	each := map[string]any{}
	var parts [][]float64
	for _, name := range c.Strings("weight_names") {
		a := of(name)
		if dims, applies := dimensions(name, scores, c.Bool("gdpo")); dims != nil {
			a = blended(of, dims, applies)
		}
		each[name] = a
		parts = append(parts, a)
	}
	sum := must(advantage.Several{}.Add(parts, c.Floats("weights")))
	if c.Bool("gdpo") {
		o.Over = "batch"
		sum = must(o.Of(make([]int, len(sum)), sum))
	}
	c.Put("each", each, "advantages", sum)
}

// dimensions are the names of a reward's parts, and where each applies.
func dimensions(name string, scores map[string][]float64, gdpo bool) (parts []string, applies [][]bool) {
	switch name {
	case "unifiedreward_edit_pointwise_image_quality", "unifiedreward_edit_pointwise_instruction_following":
		return []string{name + "_dim0", name + "_dim1"}, make([][]bool, 2)
	case "unifiedreward_flex":
		mask, ok := scores[name+"_dim_mask"]
		if !gdpo || !ok || scores[name+"_overall"] == nil || scores[name+"_dim_mean"] == nil {
			return nil, nil
		}
		where := each(mask, func(m float64) bool { return m != 0 })
		return []string{name + "_overall", name + "_dim_mean"}, [][]bool{nil, where}
	}
	return nil, nil
}

func blended(of func(name string) []float64, names []string, applies [][]bool) []float64 {
	var parts [][]float64
	var weights []float64
	for _, n := range names {
		parts, weights = append(parts, of(n)), append(weights, 1)
	}
	return blend(parts, weights, applies)
}

// blend is the weighted mean of the parts that apply to a sample: one reward with several
// dimensions, whose advantages were taken apart (Pref-GRPO). applies[k] nil: to all. A part
// that applies and is missing leaves the sample without.
func blend(parts [][]float64, weights []float64, applies [][]bool) []float64 {
	out := make([]float64, len(parts[0]))
	for i := range out {
		total := 0.0
		for k, part := range parts {
			if applies[k] == nil || applies[k][i] {
				out[i], total = out[i]+float64(weights[k]*part[i]), total+weights[k]
			}
		}
		out[i] /= total
	}
	return out
}
