package main

import (
	"math"
	"strings"

	"github.com/darkroom-rl/darkroom/trainer/loss"
)

// Token-level losses and corrections.

var tokenOps = map[string]Op{
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
