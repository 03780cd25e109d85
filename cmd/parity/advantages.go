package main

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/darkroom-rl/darkroom/trainer/advantage"
)

var advantageOps = map[string]Op{
	// Advantages of whole samples.
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

	// Advantages of answers: an estimator's settings, and the sharing of its advantages among tokens.
	"vlm.adv_gae":                   answerGAE,
	"vlm.adv_gdpo_tokens":           answerGDPO,
	"vlm.adv_gpg":                   answerOutcome,
	"vlm.adv_grpo":                  answerOutcome,
	"vlm.adv_grpo_vectorized":       answerOutcome,
	"vlm.adv_openrlhf":              answerOpenRLHF,
	"vlm.adv_opo":                   answerOutcome,
	"vlm.adv_otb":                   answerBaseline,
	"vlm.adv_otb_multiturn":         answerBaseline,
	"vlm.adv_overturn":              answerOverturn,
	"vlm.adv_passk":                 answerOutcome,
	"vlm.adv_reinforce_pp":          answerReinforce,
	"vlm.adv_reinforce_pp_baseline": answerOutcome,
	"vlm.adv_remax":                 answerReMax,
	"vlm.adv_rloo":                  answerOutcome,
	"vlm.adv_rloo_vectorized":       answerOutcome,
	"vlm.adv_trl":                   answerTRL,
	"vlm.filter_groups":             filterGroups,
	"vlm.overlong":                  overlong,
	"vlm.response_mask":             responseMask,
	"vlm.stop_properly":             stopProperly,
}

// numpyGroup is flow_grpo's: deviation over n, eps added.
func numpyGroup(global bool) advantage.Options {
	o := advantage.Options{Over: "group", Baseline: "mean", Scale: "group", Eps: 1e-4, EpsMode: "add", Singleton: "zero"}
	if global {
		o.Scale = "batch"
	}
	return o
}

// trackedGroup is ddpo-pytorch's: a prompt's history is compared.
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
			if math.IsNaN(v) { // upstream trains on a missing reward as 0
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
		if math.IsNaN(r) { // upstream: an item that was never compared has lost
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

// consecutive is ids of groups of n neighbours.
func consecutive(samples, n int) []int {
	return times(samples, func(i int) int { return i / n })
}

var (
	groupMean = advantage.Options{Over: "group", Baseline: "mean", Scale: "none", Singleton: "raw"}
	others    = advantage.Options{Over: "group", Baseline: "others", Scale: "none", Singleton: "raw"}
)

// verlGroup is verl's GRPO: one answer alone keeps its reward over 1 + eps.
func verlGroup(scale string, eps float64) advantage.Options {
	return advantage.Options{Over: "group", Baseline: "mean", Scale: scale, DDOF: 1, Eps: eps, EpsMode: "add", InverseOf: 0.25, Singleton: "unit"}
}

// outcomeOf is the estimator of an op, and the credit after it.
func outcomeOf(c *Case) (e advantage.Estimator, credit advantage.Credit) {
	scale := "group"
	if c.Has("norm_by_std") && !c.Bool("norm_by_std") {
		scale = "none"
	}
	e.Options = verlGroup(scale, numberOr(c, "eps", 0))
	switch c.Op {
	case "vlm.adv_grpo":
	case "vlm.adv_grpo_vectorized":
		e.EpsMode, e.Single = "floor_add", true
	case "vlm.adv_passk":
		e.Rule = "pass-at-k"
	case "vlm.adv_opo":
		e.Rule = "opo"
	case "vlm.adv_gpg":
		e.Rule, e.Norm = "gpg", c.Float("f_norm")
	case "vlm.adv_rloo":
		e.Options = others
	case "vlm.adv_rloo_vectorized":
		e.Options = others
		e.Singleton = "zero"
	case "vlm.adv_reinforce_pp_baseline":
		e.Options = groupMean
		credit.Whiten = whitened()
	default:
		failf("%s is no estimator of outcomes", c.Op)
	}
	return e, credit
}

// whitened is verl's masked_whiten.
func whitened() advantage.Whiten {
	w := advantage.DefaultWhiten()
	w.On = true
	return w
}

func answerOutcome(c *Case) {
	e, credit := outcomeOf(c)
	credited(c, e, credit, [][]float64{c.Floats("rewards")})
}

func answerGDPO(c *Case) {
	e := advantage.Estimator{Options: verlGroup("group", c.Float("eps")), Several: advantage.Several{How: "advantages"}}
	var rewards [][]float64
	list, _ := c.Raw("rewards").([]any)
	for i := range list {
		a, ok := list[i].(Array)
		if !ok {
			failf("input rewards[%d] is not an array", i)
		}
		rewards = append(rewards, a.Data)
	}
	credit := advantage.Credit{Whiten: whitened()}
	credit.Whiten.Extra = 0
	credited(c, e, credit, rewards)
}

// credited estimates outcomes and spreads them over tokens.
func credited(c *Case, e advantage.Estimator, credit advantage.Credit, rewards [][]float64) {
	mask := mat(c, "response_mask")
	b := advantage.Batch{Groups: c.Ints("group"), Rewards: rewards}
	for _, m := range mask {
		n := 0.0
		for _, on := range m {
			n += on
		}
		b.Lengths = append(b.Lengths, n)
	}
	a, _ := must2(e.Advantages(b))
	tokens, _ := must2(credit.Of(advantage.Tokens{Mask: mask, Outcome: a}))
	c.Put("advantages", c.like("response_mask", tokens))
}

// putCredit spreads rewards of tokens.
func putCredit(c *Case, credit advantage.Credit, t advantage.Tokens) {
	t.Mask = mat(c, "response_mask")
	a, returns := must2(credit.Of(t))
	c.Put("advantages", c.like("response_mask", a), "returns", c.like("response_mask", returns))
}

func answerReinforce(c *Case) {
	credit := advantage.Credit{How: "gae", Gamma: c.Float("gamma"), Lambda: 1, Observations: "reset", Whiten: whitened()}
	credit.Whiten.Outside = c.Has("mask_result") && !c.Bool("mask_result")
	putCredit(c, credit, advantage.Tokens{Rewards: mat(c, "token_level_rewards")})
}

func answerReMax(c *Case) {
	credit := advantage.Credit{How: "gae", Gamma: 1, Lambda: 1, Observations: "count"}
	putCredit(c, credit, advantage.Tokens{Rewards: mat(c, "token_level_rewards"), Greedy: c.Floats("reward_baselines")})
}

func answerGAE(c *Case) {
	credit := advantage.Credit{How: "gae", Gamma: c.Float("gamma"), Lambda: c.Float("lam"), Observations: "skip", Whiten: whitened()}
	credit.Whiten.Outside = true
	putCredit(c, credit, advantage.Tokens{Rewards: mat(c, "token_level_rewards"), Values: mat(c, "values")})
}

func answerBaseline(c *Case) {
	credit := advantage.Credit{How: "baseline", Compact: c.Op == "vlm.adv_otb_multiturn", ZeroTail: c.Bool("handle_zero_tail")}
	t := advantage.Tokens{Groups: c.Ints("group"), Rewards: mat(c, "token_level_rewards"), LogProb: mat(c, "old_log_probs"), SumSquares: mat(c, "sum_pi_squared")}
	c.Given("rollout_is_weights", &t.Weights)
	putCredit(c, credit, t)
}

// answerOpenRLHF is its whole pipeline: outcomes compared, put at the last token less the KL,
// summed to the end, and for some estimators whitened.
func answerOpenRLHF(c *Case) {
	r, mask := c.Floats("rewards"), mat(c, "response_mask")
	o := advantage.Options{Over: "group", Baseline: "none", Scale: "none"}
	credit := advantage.Credit{How: "gae", Gamma: c.Float("gamma"), Lambda: 1, Observations: "count"}
	var values [][]float64
	switch c.String("estimator") {
	case "rloo":
		o = others
	case "dr_grpo", "reinforce_baseline":
		o = groupMean
	case "group_norm":
		o = verlGroup("group", 1e-9)
	case "gae":
		credit.Lambda, values = c.Float("lam"), mat(c, "values")
	}
	switch c.String("estimator") {
	case "gae", "reinforce", "reinforce_baseline":
		credit.Whiten = advantage.Whiten{On: true, Eps: 1e-8, Floor: true, Outside: true}
	}
	a := must(o.Of(consecutive(len(r), c.Int("group_size")), r))
	putCredit(c, credit, advantage.Tokens{Rewards: advantage.AtEnd(a, mask, mat(c, "kl"), c.Float("kl_coef")), Values: values})
}

func answerTRL(c *Case) {
	rewards := byReward(c.Array("rewards_per_func"))
	o := advantage.Options{Over: "group", Baseline: "mean", Scale: c.String("scale"), DDOF: 1, Eps: c.Float("eps"), EpsMode: "add"}
	s := advantage.Several{How: "rewards", Partial: true}
	if c.String("aggregation") == "normalize_then_sum" {
		s.How, o.Scale = "gdpo", "group"
	}
	b := advantage.Batch{Groups: consecutive(len(rewards[0]), c.Int("group_size")), Rewards: rewards, Weights: c.Floats("weights")}
	a, _ := must2(advantage.Estimator{Options: o, Several: s}.Advantages(b))
	for i, v := range a {
		if math.IsNaN(v) { // nobody is blamed, which TRL writes as 0
			a[i] = 0
		}
	}
	c.Put("advantages", a)
}

func answerOverturn(c *Case) {
	scale := map[string]string{"std": "group", "inverse_std": "inverse", "none": "none"}[c.String("norm")]
	e := advantage.Estimator{Options: verlGroup(scale, c.Float("eps"))}
	e.InverseOf = c.Float("scale")
	c.Put("loss_mask", c.like("response_mask", silenced(mat(c, "response_mask"), truths(c, "exceeded"))))
	credited(c, e, advantage.Credit{}, [][]float64{c.Floats("rewards")})
}

// truths are numbers that say yes or no.
func truths(c *Case, name string) []bool {
	return each(c.Floats(name), func(x float64) bool { return x != 0 })
}

func overlong(c *Case) {
	o := advantage.Overlong{Limit: c.Int("max_len"), Buffer: c.Int("buffer"), Factor: c.Float("factor"), Floor: c.Bool("floor")}
	c.Put("penalty", each(c.Ints("lengths"), o.Penalty))
}

func stopProperly(c *Case) {
	r, truncated := c.Floats("rewards"), truths(c, "truncated")
	for i := range r {
		r[i] = advantage.StopProperly(r[i], c.Float("coef"), truncated[i])
	}
	c.Put("rewards", r)
}

func responseMask(c *Case) {
	ends := map[int]bool{}
	for _, id := range c.Ints("eos") {
		ends[id] = true
	}
	all := each(mat(c, "ids"), func(row []float64) []float64 { return answerMask(to[int](row), ends) })
	c.Put("mask", c.like("ids", all))
}

func filterGroups(c *Case) {
	ids, scores := c.Ints("group"), c.Floats("scores")
	switch c.String("rule") {
	case "mean":
		c.Put("kept", advantage.Filter{By: "mean", Low: c.Float("low"), High: c.Float("high")}.Kept(ids, scores, nil))
		return
	case "std_pop":
		c.Put("kept", advantage.Filter{By: "rounded"}.Kept(ids, scores, nil))
		return
	}
	var exceeded []bool
	if c.Has("exceeded") {
		exceeded = truths(c, "exceeded")
	}
	// Where a judge failed, the reward is missing: upstream has a list of such groups.
	bad := c.Ints("failed_groups")
	failed := func(group int) bool { return slices.Contains(bad, group) }
	judged := slices.Clone(scores)
	for i, id := range ids {
		if failed(id) {
			judged[i] = math.NaN()
		}
	}
	c.Put("kept", advantage.Filter{By: "deviation", Least: c.Float("min_std")}.Kept(ids, judged, exceeded))
	// The pictures of each answer were drawn while the case was made, and are among its outputs; more than one means
	// that a tool was used. No format was rewarded.
	var used []bool
	pictures := c.Recorded("image_counts")
	for _, n := range pictures {
		used = append(used, n > 1)
	}
	stats := map[string]any{"solve_format_none": 0, "solve_format_all": 0}
	for name, n := range toolHealth(ids, scores, used, failed, exceeded) {
		stats[name] = n
	}
	stats["solve_format_none"] = stats["totals"]
	c.Put("stats", stats, "image_counts", pictures)
}

// answerMask is 1 up to and including the first end token.
func answerMask(ids []int, ends map[int]bool) []float64 {
	mask := make([]float64, len(ids))
	for i, id := range ids {
		mask[i] = 1
		if ends[id] {
			break
		}
	}
	return mask
}

// silenced is a mask without the rows of answers that are not trained on, whose rewards count
// in their groups all the same (Mini-o3: those that ran out of turns).
func silenced(mask [][]float64, answers []bool) [][]float64 {
	out := make([][]float64, len(mask))
	for i, row := range mask {
		out[i] = make([]float64, len(row))
		if !answers[i] {
			copy(out[i], row)
		}
	}
	return out
}

// toolHealth counts, over groups of answers that may have used a tool, the worth of the tool (Mini-o3's statistics).
// "num_d_t" counts groups by the results of direct answers and of answers with a tool: 0 all wrong, 1 all right, 2
// both, k none of the kind. The rest counts groups by which kinds were ever right, and whether anything was wrong;
// groups whose judge failed leave the counts of solved ones. An answer that was not judged (NaN) is neither right nor
// wrong, and is not counted.
func toolHealth(ids []int, correct []float64, used []bool, failed func(group int) bool, exceeded []bool) map[string]int {
	m := map[string]int{}
	for _, name := range []string{"solve_none", "solve_all", "solve_acc_none", "solve_acc_all", "totals", "success_tool_call_per_batch", "success_tool_call_per_sample",
		"use_tool_and_direct_answer_num", "wrong_and_use_tool_num", "wrong_and_direct_answer_num", "wrong_and_use_tool_and_direct_answer_num",
		"only_use_tool_num", "only_direct_answer_num", "only_wrong_num"} {
		m[name] = 0
	}
	for _, d := range "012k" {
		for _, t := range "012k" {
			if d != 'k' || t != 'k' {
				m[fmt.Sprintf("num_%c_%c", d, t)] = 0
			}
		}
	}
	for _, g := range advantage.Groups(ids) {
		g = slices.DeleteFunc(g, func(i int) bool { return math.IsNaN(correct[i]) })
		if len(g) == 0 {
			continue
		}
		var right, wrong [2]int // without and with the tool
		for _, i := range g {
			kind := 0
			if used[i] {
				kind = 1
				m["success_tool_call_per_batch"]++
			}
			if correct[i] > 0 {
				right[kind]++
			} else {
				wrong[kind]++
			}
		}
		if right[1]+wrong[1] > 0 {
			m["success_tool_call_per_sample"]++
		}
		m["num_"+shareRight(right[0], wrong[0])+"_"+shareRight(right[1], wrong[1])]++
		m[whoWasRight(right[1] > 0, right[0] > 0, wrong[0]+wrong[1] > 0)]++
		if failed(ids[g[0]]) {
			continue
		}
		m["totals"]++
		all, none, accAll, accNone := true, true, true, true
		for _, i := range g {
			one, zero := math.Abs(correct[i]-1) <= 1e-8+1e-5, correct[i] == 0
			accAll, accNone = accAll && one, accNone && zero
			if exceeded == nil || !exceeded[i] {
				all, none = all && one, none && zero
			}
		}
		count := func(none, all bool, name string) {
			switch {
			case none:
				m[name+"_none"]++
			case all:
				m[name+"_all"]++
			}
		}
		count(none, all, "solve")
		count(accNone, accAll, "solve_acc")
	}
	return m
}

// shareRight names the results of answers of one kind: all right, all wrong, both, none there.
func shareRight(right, wrong int) string {
	switch {
	case right == 0 && wrong == 0:
		return "k"
	case right == 0:
		return "0"
	case wrong == 0:
		return "1"
	}
	return "2"
}

// whoWasRight names the kinds of answers that a group has.
func whoWasRight(tool, direct, wrong bool) string {
	switch {
	case tool && direct && wrong:
		return "wrong_and_use_tool_and_direct_answer_num"
	case tool && direct:
		return "use_tool_and_direct_answer_num"
	case tool && wrong:
		return "wrong_and_use_tool_num"
	case tool:
		return "only_use_tool_num"
	case direct && wrong:
		return "wrong_and_direct_answer_num"
	case direct:
		return "only_direct_answer_num"
	}
	return "only_wrong_num"
}
