package main

import (
	"math"
	"strings"

	"github.com/darkroom-rl/darkroom/trainer/loss"
	"github.com/darkroom-rl/darkroom/trainer/sampling"
)

var tokenOps = map[string]Op{
	// Token-level losses and corrections.
	"vlm.agg_loss":          tokenAggregate,
	"vlm.entropy_loss":      tokenEntropy,
	"vlm.is_ratio_trl":      tokenRatioTRL,
	"vlm.is_weights":        tokenWeights,
	"vlm.kl":                tokenKL,
	"vlm.kl_clamped":        tokenKL,
	"vlm.kl_controller":     klController,
	"vlm.kl_in_reward":      klInReward,
	"vlm.logprob":           tokenLogProb,
	"vlm.loss_cispo":        tokenLoss,
	"vlm.loss_easyr1":       lossEasyR1,
	"vlm.loss_gmpo":         tokenLoss,
	"vlm.loss_gpg":          tokenLoss,
	"vlm.loss_gspo":         tokenLoss,
	"vlm.loss_openrlhf":     lossOpenRLHF,
	"vlm.loss_ppo":          tokenLoss,
	"vlm.loss_reinforce":    tokenLoss,
	"vlm.loss_sapo":         tokenLoss,
	"vlm.loss_trl":          lossTRL,
	"vlm.offpolicy_metrics": offPolicy,
	"vlm.rejection_mask":    rejectionMask,
	"vlm.sampling_probs":    samplingProbabilities,
	"vlm.value_loss":        tokenValue,
}

func mat(c *Case, name string) [][]float64 { return samples(c.Array(name)) }

func tokenLoss(c *Case) {
	t := loss.Tokens{LogProb: mat(c, "logp"), Old: mat(c, "old_logp"), Advantage: mat(c, "advantages"), Mask: mat(c, "response_mask")}
	c.Given("is_weights", &t.Weight)
	o := loss.TokenLoss{
		Clipping:     loss.Clipped(numberOr(c, "clip_low", 0), numberOr(c, "clip_high", 0), numberOr(c, "dual_clip", 0)),
		TokenOptions: loss.TokenOptions{SAPOOptions: loss.SAPOOptions{TauPos: numberOr(c, "tau_pos", 1), TauNeg: numberOr(c, "tau_neg", 1)}},
	}
	o.Objective = map[string]string{"vlm.loss_reinforce": "gpg", "vlm.loss_ppo": "clip"}[c.Op]
	if o.Objective == "" {
		o.Objective = c.Op[len("vlm.loss_"):]
	}
	o.Aggregate.Mode = text(c, "agg", "seq-mean-token-mean")
	r := must(o.Of(t))
	c.Put("loss", r.Loss, "grad_logp", c.like("logp", r.Grad), "clipfrac", r.Metrics["clipped"])
	c.Put("ppo_kl", r.Metrics["ppo_kl"])
	if o.Objective == "gmpo" {
		c.Put("clipfrac_lower", r.Metrics["clipped_low"])
	} else {
		c.Put("clipfrac_lower", r.Metrics["clipped_dual"])
	}
}

func tokenAggregate(c *Case) {
	a := loss.Aggregate{Mode: c.String("mode"), Tokens: numberOr(c, "batch_num_tokens", 0), Rows: numberOr(c, "global_batch_size", 0), Scale: numberOr(c, "loss_scale_factor", 0), Workers: numberOr(c, "dp_size", 1)}
	w := must(a.Weights(mat(c, "mask")))
	total := 0.0
	for i, row := range mat(c, "loss_mat") {
		for t, v := range row {
			total += v * w[i][t]
		}
	}
	c.Put("loss", total, "grad", c.like("mask", w))
}

func tokenKL(c *Case) {
	x, ref := c.Array("logp"), c.Floats("ref_logp")
	kl, grad := make([]float64, len(ref)), make([]float64, len(ref))
	p := loss.Penalty{Estimator: c.String("kind")}
	if c.Op == "vlm.kl_clamped" {
		p.Cut = 10 // OpenRLHF's
	}
	for i, lp := range x.Data {
		kl[i], grad[i] = p.Token(lp, ref[i])
	}
	c.Put("kl", Array{x.Shape, kl}, "grad_logp", Array{x.Shape, grad})
}

func klInReward(c *Case) {
	s, lp, ref := c.Array("scores"), c.Floats("logp"), c.Floats("ref_logp")
	for i := range s.Data {
		kl, _ := loss.KL("k1", lp[i], ref[i])
		s.Data[i] -= c.Float("beta") * kl
	}
	c.Put("rewards", s)
}

// klController steers a KL's weight to a target (Ziegler et al., 2019, as verl has it):
// weight *= 1 + clip(kl/target - 1, ±0.2)·n/horizon. No run steers it yet; Pref-GRPO's is adaptiveWeight.
func klController(c *Case) {
	weight := c.Float("init")
	var values []float64
	for _, kl := range c.Floats("kl") {
		weight *= 1 + min(max(kl/c.Float("target")-1, -0.2), 0.2)*c.Float("n")/c.Float("horizon")
		values = append(values, weight)
	}
	c.Put("values", values)
}

func tokenValue(c *Case) {
	l, grad, clipped := must3(loss.Value(mat(c, "values"), mat(c, "old_values"), mat(c, "returns"), mat(c, "response_mask"), c.Float("clip"), loss.Aggregate{Mode: c.String("agg")}))
	c.Put("loss", l, "grad", c.like("values", grad), "clipfrac", clipped)
}

// rowsOfLogits are the rows over the vocabulary.
func rowsOfLogits(c *Case) (rows [][]float64, shape []int) {
	a := c.Array("logits")
	v := a.Shape[len(a.Shape)-1]
	for x := a.Data; len(x) > 0; x = x[v:] {
		rows = append(rows, x[:v])
	}
	return rows, a.Shape
}

func tokenLogProb(c *Case) {
	rows, shape := rowsOfLogits(c)
	labels, g := c.Ints("labels"), c.Floats("cotangent")
	var lp, grad []float64
	for i, row := range rows {
		l, d := logitLogProb(row, labels[i], g[i])
		lp, grad = append(lp, l), append(grad, d...)
	}
	c.Put("logp", Array{c.Array("labels").Shape, lp}, "grad_logits", Array{shape, grad})
}

func tokenEntropy(c *Case) {
	rows, shape := rowsOfLogits(c)
	w := must(loss.Aggregate{Mode: c.String("agg")}.Weights(mat(c, "response_mask")))
	weights, total := flat(w), 0.0
	var grad []float64
	for i, row := range rows {
		h, d := logitEntropy(row, weights[i])
		total += h * weights[i]
		grad = append(grad, d...)
	}
	c.Put("loss", total, "grad_logits", Array{shape, grad})
}

func tokenWeights(c *Case) {
	w, by := loss.Weights(mat(c, "log_ratio"), mat(c, "response_mask"), c.String("level") == "sequence", c.Float("threshold"), c.Bool("batch_normalize"))
	c.Put("weights", c.like("log_ratio", w))
	if by != 0 {
		c.Put("norm_factor", by)
	} else {
		c.Put("norm_factor", nil)
	}
}

func rejectionMask(c *Case) {
	mask := mat(c, "response_mask")
	kept := must(loss.Rejection(mat(c, "log_ratio"), mask, c.String("options"), c.String("threshold")))
	var tokens, gone, answers, whole float64
	for i, m := range mask {
		before, after := 0.0, 0.0
		for t, on := range m {
			before, after = before+on, after+kept[i][t]
		}
		tokens, gone = tokens+before, gone+before-after
		answers++
		if before != after {
			whole++
		}
	}
	c.Put("mask", c.like("response_mask", kept), "masked_fraction", gone/tokens, "seq_masked_fraction", whole/answers)
}

func offPolicy(c *Case) {
	for name, v := range loss.OffPolicy(mat(c, "old_logp"), mat(c, "rollout_logp"), mat(c, "response_mask")) {
		c.Put(name, v)
	}
}

func tokenRatioTRL(c *Case) {
	old, sampler, mask, tool := mat(c, "old_logp"), mat(c, "sampling_logp"), mat(c, "completion_mask"), mat(c, "tool_mask")
	log := minus(old, sampler)
	for i := range mask {
		for t := range mask[i] {
			mask[i][t] *= tool[i][t]
		}
	}
	mode := c.String("mode")
	o := loss.Bounded{Level: "token", Drop: strings.HasSuffix(mode, "_mask"), Low: numberOr(c, "clip_min", 0), High: numberOr(c, "clip_max", math.Inf(1))}
	if strings.HasPrefix(mode, "seq") {
		o.Level = "sequence"
	}
	r := must(o.Weights(log, mask))
	if o.Level == "sequence" { // recorded as one number an answer
		for i := range r {
			r[i] = r[i][:1]
		}
	}
	c.Put("ratio", Array{[]int{len(r), len(r[0])}, flat(r)})
}

func minus(x, y [][]float64) [][]float64 {
	out := make([][]float64, len(x))
	for i := range x {
		for t := range x[i] {
			out[i] = append(out[i], x[i][t]-y[i][t])
		}
	}
	return out
}

// logitLogProb is logit[label] - logsumexp, and its gradient by the logits times g.
func logitLogProb(logits []float64, label int, g float64) (lp float64, grad []float64) {
	p, lse := softmax(logits)
	grad = make([]float64, len(logits))
	for i, q := range p {
		grad[i] = -g * q
	}
	grad[label] += g
	return logits[label] - lse, grad
}

// logitEntropy is logsumexp - Σ p·logit, and its gradient by the logits times g.
func logitEntropy(logits []float64, g float64) (h float64, grad []float64) {
	p, lse := softmax(logits)
	mean := 0.0
	for i, q := range p {
		mean += float64(q * logits[i])
	}
	grad = make([]float64, len(logits))
	for i, q := range p {
		grad[i] = -g * q * (logits[i] - mean)
	}
	return lse - mean, grad
}

func softmax(x []float64) (p []float64, lse float64) {
	top := math.Inf(-1)
	for _, v := range x {
		top = math.Max(top, v)
	}
	total := 0.0
	p = make([]float64, len(x))
	for i, v := range x {
		p[i] = math.Exp(v - top)
		total += p[i]
	}
	for i := range p {
		p[i] /= total
	}
	return p, top + math.Log(total)
}

// Token objectives in the words of EasyR1, OpenRLHF and TRL, and sampling in Hugging Face's.

// tokenOptions are the common options of their cases.
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
	case "cispo": // its bound is the ratio's itself, without a lower one
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
