package main

import (
	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/sampling"
)

// Token objectives in the words of EasyR1, OpenRLHF and TRL, and sampling in Hugging Face's.

// tokenOptions are what their cases have in common.
func tokenOptions(c *Case) loss.TokenLoss {
	o := loss.DefaultTokens()
	o.ClipRange, o.ClipHigh, o.DualClip = numberOr(c, "clip_low", 0), numberOr(c, "clip_high", 0), numberOr(c, "dual_clip", 0)
	o.TauPos, o.TauNeg = numberOr(c, "tau_pos", 1), numberOr(c, "tau_neg", 1)
	return o
}

// translate is a name of theirs in ours.
func translate(c *Case, input string, names map[string]string) string {
	name := c.String(input)
	ours, ok := names[name]
	if !ok {
		failf("%s %q is not known", input, name)
	}
	return ours
}

func lossEasyR1(c *Case) {
	o := tokenOptions(c)

	o.Objective = translate(c, "kind", map[string]string{"default": "clip", "gspo": "gspo-mean", "gspo_token": "gspo", "cispo": "cispo", "sapo": "sapo"})
	mode := translate(c, "agg", map[string]string{"token": "token-mean", "seq": "seq-mean-token-mean"})
	o.Aggregate = loss.Aggregate{Mode: mode, AllRows: true}
	t := loss.Tokens{LogProb: mat(c, "logp"), Old: mat(c, "old_logp"), Advantage: mat(c, "advantages"), Mask: mat(c, "response_mask")}
	r := must(o.Of(t))
	c.Put("loss", r.Loss, "grad_logp", c.like("logp", r.Grad))
	// Its stand-in for entropy is the mean of -lp, as REINFORCE has it for advantages of 1.
	surprise := loss.TokenLoss{Objective: "gpg", TokenOptions: loss.TokenOptions{Aggregate: o.Aggregate}}
	for i := range t.Advantage {
		for k := range t.Advantage[i] {
			t.Advantage[i][k] = 1
		}
	}
	metrics := map[string]any{"ppo_kl": r.Metrics["ppo_kl"], "entropy_loss": must(surprise.Of(t)).Loss}
	if o.Objective != "cispo" && o.Objective != "sapo" {
		metrics["pg_clipfrac_higher"], metrics["pg_clipfrac_lower"] = r.Metrics["clipped"], r.Metrics["clipped_dual"]
	}
	c.Put("metrics", metrics)
}

func lossOpenRLHF(c *Case) {
	o := tokenOptions(c)

	o.Objective = translate(c, "kind", map[string]string{"ppo": "clip", "gspo": "gspo-mean"})
	if !c.Bool("token_level") || o.Objective == "gspo-mean" {
		o.Aggregate.Mode = "seq-mean-token-mean"
	}
	t := loss.Tokens{LogProb: mat(c, "logp"), Old: mat(c, "old_logp"), Advantage: mat(c, "advantages"), Mask: mat(c, "response_mask")}
	old, sampler := t.Old, mat(c, "rollout_logp")
	c.Put("rollout_kl", nil)
	switch {
	case c.Has("correction") && o.Objective == "gspo-mean": // its ratio is to the sampler, without weights
		t.Old = sampler
	case c.Has("correction"):
		between := c.Floats("correction_range")
		b := loss.Bounded{Drop: c.String("correction") == "icepop", Low: between[0], High: between[1]}
		b.Level = translate(c, "correction", map[string]string{"tis": "token", "icepop": "token", "seq-mask-tis": "geometric"})
		t.Weight = must(b.Weights(minus(old, sampler), t.Mask))
		c.Put("rollout_kl", loss.OffPolicy(old, sampler, t.Mask)["kl"])
	}
	r := must(o.Of(t))
	c.Put("loss", r.Loss, "grad_logp", c.like("logp", r.Grad), "clip_ratio", r.Metrics["clipped"])
	c.Put("ppo_kl", loss.OffPolicy(t.LogProb, old, t.Mask)["kl"])
}

func lossTRL(c *Case) {
	o := tokenOptions(c)
	o.ClipRange, o.ClipHigh = c.Float("eps_low"), c.Float("eps_high")
	o.RatioCap = numberOr(c, "delta", 0)
	o.SequenceRatio = c.String("level") == "sequence"
	o.Keep = loss.Keep{Drift: numberOr(c, "opsm_threshold", 0), Entropy: c.Float("top_entropy_quantile")}
	o.KL = loss.Penalty{Weight: c.Float("beta"), Estimator: "k3", Corrected: c.Bool("bias_correct_kl")}
	o.EntropyWeight = c.Float("entropy_coef")
	if c.Has("vespo") {
		v := c.Sub("vespo")
		o.Vespo = loss.Vespo{KPos: v.Float("k_pos"), LambdaPos: v.Float("lambda_pos"), KNeg: v.Float("k_neg"), LambdaNeg: v.Float("lambda_neg")}
	}
	t := loss.Tokens{LogProb: mat(c, "logp"), Reference: mat(c, "ref_logp"), Sampler: mat(c, "sampling_logp"), Entropy: mat(c, "entropy"), Mask: mat(c, "completion_mask")}
	tool, advantages := mat(c, "tool_mask"), c.Floats("advantages")
	for i, row := range t.Mask {
		t.Advantage = append(t.Advantage, make([]float64, len(row)))
		for k := range row {
			row[k] *= tool[i][k]
			t.Advantage[i][k] = advantages[i]
		}
	}
	t.Old = t.LogProb // in the first update nothing has moved
	c.Given("old_logp", &t.Old, "is_ratio", &t.Weight)
	items := max(c.Float("num_items"), 1)
	perRow := loss.Aggregate{Mode: "seq-mean-token-mean", AllRows: true, AtLeast: true}
	perItem := loss.Aggregate{Mode: "token-mean", Tokens: items}
	kind := c.String("loss_type")
	aggregate, ok := map[string]loss.Aggregate{
		"grpo": perRow, "sapo": perRow, "dapo": perItem, "cispo": perItem, "vespo": perItem, "bnpo": {Mode: "token-mean"}, "luspo": {Mode: "token-mean"},
		"dr_grpo": {Mode: "seq-mean-token-sum-norm", Scale: float64(len(t.Mask)) * c.Float("max_completion_length")},
	}[kind]
	if !ok {
		failf("loss_type %q is not known", kind)
	}
	o.Aggregate = aggregate
	switch kind {
	case "cispo": // its bound is the ratio's itself, and there is none below
		o.Objective, o.ClipRange, o.ClipHigh = "cispo", 1, o.ClipHigh-1
	case "sapo", "vespo", "luspo":
		o.Objective = kind
	}
	r := must(o.Of(t))
	c.Put("loss", r.Loss, "grad_logp", c.like("logp", r.Grad))
}

func samplingProbabilities(c *Case) {
	o := sampling.Options{Temperature: numberOr(c, "temperature", 1), TopK: int(numberOr(c, "top_k", 0)), TopP: numberOr(c, "top_p", 1), MinP: numberOr(c, "min_p", 0),
		Repetition: numberOr(c, "repetition_penalty", 1)}
	seen, banned := mat(c, "previous_ids"), c.Ints("banned")
	var all []float64
	var kept []int
	for i, logits := range mat(c, "logits") {
		p := must(o.Probabilities(logits, to[int](seen[i]), banned))
		n := 0
		for _, v := range p {
			if v > 0 {
				n++
			}
		}
		all, kept = append(all, p...), append(kept, n)
	}
	c.Put("probs", Array{c.Array("logits").Shape, all}, "kept", kept)
}
