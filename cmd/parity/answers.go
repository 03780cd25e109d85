package main

import (
	"math"

	"github.com/darkroom-rl/darkroom/trainer/advantage"
)

// Advantages of answers: an estimator's settings, and how tokens share what it says.

var answerOps = map[string]Op{
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
