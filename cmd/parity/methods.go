package main

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/data/prompts"
	"github.com/darkroom-rl/darkroom/trainer/advantage"
	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// Methods whose cases are made by internal/oracle/methods.py, and by preference.py beside it.

var methodOps = map[string]Op{
	"methods.adv_bnpo":        methodAdvantages,
	"methods.adv_gigpo":       methodTurns,
	"methods.adv_maxatk":      methodAdvantages,
	"methods.adv_spo":         methodTracker,
	"methods.adv_tree_grpo":   methodTrees,
	"methods.further_dars":    methodFurther,
	"methods.guidance":        methodGuidance,
	"methods.loss_chord":      methodWritten,
	"methods.loss_delta_l":    methodLoss,
	"methods.loss_gepo":       methodLoss,
	"methods.loss_kto":        methodGood,
	"methods.loss_papo":       methodLoss,
	"methods.loss_preference": methodPairs,
	"methods.mu_chord":        methodShare,
	"methods.select_pf_ppo":   methodFiltered,
}

func methodAdvantages(c *Case) {
	e := advantage.Estimator{Rule: "beta", Options: advantage.Options{Scale: "none"}}
	if c.Op == "methods.adv_maxatk" {
		e.Rule, e.K = "max-at-k", int(c.Float("k"))
	} else {
		e.Range = [2]float64{c.Float("low"), c.Float("high")}
	}
	a, _ := must2(e.Advantages(advantage.Batch{Groups: c.Ints("group"), Rewards: [][]float64{c.Floats("rewards")}}))
	c.Put("advantages", a)
}

// methodTracker is several iterations of single-stream SPO, a row each.
func methodTracker(c *Case) {
	h := &advantage.History{Rho: c.Float("rho")}
	e := advantage.Estimator{Rule: "tracker", History: h, Options: advantage.Options{
		Over: "batch", Baseline: "mean", Scale: "group", DDOF: 1, Eps: 1e-8, EpsMode: "add"}}
	shape, rewards := c.Array("rewards").Shape, samples(c.Array("rewards"))
	var out, alpha, beta []float64
	for i, row := range samples(c.Array("prompts")) {
		b := advantage.Batch{Rewards: [][]float64{rewards[i]}}
		for k, p := range row {
			b.Groups, b.Prompts = append(b.Groups, k), append(b.Prompts, fmt.Sprint(p))
		}
		a, _ := must2(e.Advantages(b))
		out = append(out, a...)
	}
	for p := range len(h.Beliefs) {
		belief := h.Beliefs[fmt.Sprint(p)]
		alpha, beta = append(alpha, belief.Alpha), append(beta, belief.Beta)
	}
	c.Put("advantages", Array{shape, out}, "alpha", alpha, "beta", beta)
}

// methodTrees is Tree-GRPO's sum of two comparisons.
func methodTrees(c *Case) {
	e := advantage.Estimator{Options: advantage.Options{Over: "group", Baseline: "mean", Scale: "group", DDOF: 1, Eps: 1e-6, EpsMode: "add"}}
	a, _ := must2(e.InTrees(advantage.Batch{Groups: c.Ints("group"), Rewards: [][]float64{c.Floats("rewards")}}, c.Ints("tree")))
	c.Put("advantages", a)
}

// methodTurns is GiGPO's credit of turns.
func methodTurns(c *Case) {
	var visits []advantage.Visit
	prompt, state, rewards := c.Ints("prompt"), c.Ints("state"), c.Floats("rewards")
	for i, e := range c.Ints("episode") {
		visits = append(visits, advantage.Visit{Episode: e, Prompt: prompt[i], State: fmt.Sprint(state[i]), Reward: rewards[i]})
	}
	a := must(advantage.Turns{Weight: 1, Gamma: c.Float("gamma"), Scale: c.String("scale")}.Of(visits))
	c.Put("advantages", a)
}

// methodFiltered is PF-PPO's choice of two answers.
func methodFiltered(c *Case) {
	var kept []float64
	for _, i := range advantage.FirstAndDrawn([]float64{c.Float("u")}, c.Floats("rewards"), 2) {
		kept = append(kept, float64(i))
	}
	c.Put("kept", kept)
}

// methodFurther is DARS's schedules.
func methodFurther(c *Case) {
	m := prompts.More{By: c.String("by"), Most: c.Int("most")}
	var n []float64
	for _, s := range c.Floats("success") {
		n = append(n, float64(m.Further(s, c.Int("group"), c.Int("divided") == 1)))
	}
	c.Put("further", n)
}

// methodGuidance is how many tokens of a solution G2RPO-A gives, behind each iteration's accuracy.
func methodGuidance(c *Case) {
	g := prompts.Guided{Tokens: c.Int("tokens"), Most: c.Int("most"), Every: 3}
	k := g.New()
	var lengths []float64
	for _, a := range c.Floats("accuracy") {
		g.Learn(k, a)
		lengths = append(lengths, float64(k.Tokens))
	}
	c.Put("lengths", lengths)
}

// methodLoss is a loss of one group's answers.
func methodLoss(c *Case) {
	o := loss.DefaultTokens()
	o.Objective, o.Clipping = "gepo", loss.Clipped(0.2, 0.28, 0)
	if c.Op == "methods.loss_delta_l" {
		o.Objective, o.Aggregate = "clip", loss.Aggregate{Mode: "delta-l", Power: 0.75, Scale: 16}
	}
	if c.Op == "methods.loss_papo" {
		// A row without tokens counts upstream, where rows are averaged; none of these cases has one.
		o.Objective, o.DualClip, o.Aggregate = "clip", 3, loss.Aggregate{Mode: c.String("mode")}
		o.Perception.Weight, o.Perception.Surprisal = c.Float("weight"), c.Float("surprisal")
	}
	t := loss.Tokens{LogProb: mat(c, "logp"), Old: mat(c, "old_logp"), Mask: mat(c, "mask")}
	for i, a := range c.Floats("advantages") {
		t.Advantage = append(t.Advantage, times(len(t.Old[i]), func(k int) float64 { return a }))
	}
	if o.Perception.On() {
		t.Masked = mat(c, "masked_logp")
	}
	r := must(o.Of(t))
	c.Put("loss", r.Loss, "grad_logp", c.like("logp", r.Grad))
}

// methodWritten is CHORD's loss of written answers.
func methodWritten(c *Case) {
	value, grad := must2(loss.Likelihood(mat(c, "logp"), mat(c, "mask"), loss.Aggregate{Mode: c.String("mode")}, true))
	c.Put("loss", value, "grad_logp", c.like("logp", grad))
}

// methodShare is how much of CHORD's loss written answers are, iteration by iteration.
func methodShare(c *Case) {
	o := loss.Imitation{Weight: c.Float("peak"), Least: c.Float("valley"), Warmup: c.Int("warmup"), Decay: c.Int("decay")}
	c.Put("mu", each(c.Ints("steps"), o.Share))
}

// methodPairs is a loss of pairs, the better answers before the worse ones.
func methodPairs(c *Case) {
	o := loss.Preference{PairForm: loss.PairForm{Form: c.String("form")}, Beta: c.Float("beta"),
		PairWeights: loss.PairWeights{Smoothing: c.Float("smoothing"), Weight: c.Float("weight"), Quality: c.Float("quality"), Imitate: c.Float("imitate")}}
	a := loss.Answered{Own: c.Floats("own"), Reference: c.Floats("reference"), Tokens: c.Ints("tokens")}
	pairs := times(len(a.Own)/2, func(i int) [2]int { return [2]int{i, i + len(a.Own)/2} })
	r := must(o.Pairs(a, pairs, &loss.Shift{Mean: 0.3, Batches: 1}))
	c.Put("loss", r.Loss, "grad_own", Array{c.Array("own").Shape, r.Grad})
}

// methodGood is KTO's loss.
func methodGood(c *Case) {
	o := loss.Preference{Beta: c.Float("beta"), UnpairedOptions: loss.UnpairedOptions{Desirable: 1, Undesirable: c.Float("undesirable")}}
	good := each(c.Ints("good"), func(g int) bool { return g == 1 })
	r := o.Good(loss.Answered{Own: c.Floats("own"), Reference: c.Floats("reference")}, good,
		loss.Answered{Own: c.Floats("other"), Reference: c.Floats("other_reference")})
	c.Put("loss", r.Loss, "grad_own", r.Grad, "distance", r.Distance)
}
