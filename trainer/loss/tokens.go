package loss

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// Objectives over the tokens of answers. With d = lp - old, r = e^d of a token, s the mean of
// d over an answer's tokens, A the token's advantage:
//
//	ppo        max(-A·r, -A·clip(r)); where A < 0 at most -A·Dual (dual clip). GRPO, DAPO
//	           (High > Low), Dr.GRPO (by aggregation), RLOO, REINFORCE++ by their advantages
//	gspo       ppo with one ratio an answer, e^s; each token gets the gradient of its own
//	           log-probability (Zheng et al., 2025; verl)
//	gspo-mean  the same with the gradient of the mean (EasyR1, OpenRLHF, TRL)
//	luspo      gspo-mean whose answers weigh by their length (TRL): sums in place of means
//	cispo      -clip(r)·A·lp, no gradient through the ratio (MiniMax-M1). TRL has no lower
//	           bound, and its epsilon_high is the bound itself: Low = 1, High one less
//	sapo       -A·4/τ·σ(τ·(r-1)), τ by the sign of A (Gao et al., 2025)
//	gpg        -A·lp (REINFORCE)
//	distill    0: the distance from the reference alone, with k2 the policy gradient of its divergence (GKD)
//	gmpo       gmpo.go
//	gepo       gepo.go
//	vespo      -φ·A·lp, one weight an answer, vespo.go
//	clip-cov   ppo without some tokens, kl-cov -A·r with a pull on some: covariance.go
//
// In order, tokens are left out and get weights where the sampler disagreed (correction.go);
// then a token's loss is computed, left out (Keep), multiplied by its rollout weight
// and joined by Weight·KL to the reference; then tokens are averaged (aggregate.go), and
// EntropyWeight times their mean entropy is taken off. perception.go adds its distance at KL's place.
//
// d is cut to ±20 with no gradient beyond (gspo: the mean is cut at 10 from above, as in
// verl). TRL does not cut; its log-ratios never get there.
//
// Invariants (tests): every gradient agrees with finite differences where nothing is held
// fixed; right after a roll it is the policy gradient, whatever the objective but gepo, which weighs answers.
type TokenLoss struct {
	Objective string
	Clipping
	TokenOptions
	KL         Penalty
	Correction Correction
}

// TokenOptions are the options that only tokens have.
type TokenOptions struct {
	RatioCap      float64 `toml:"ratio_cap" range:"[0,inf)" of:"tokens" doc:"largest ratio where the clip lets it pass (TRL's delta); 0: none"`
	SequenceRatio bool    `toml:"sequence_ratio" of:"tokens" doc:"one ratio an answer, with the gradient of the mean"`
	SAPOOptions
	EntropyWeight float64 `toml:"entropy_weight" range:"[0,inf)" of:"tokens" doc:"of the bonus for the tokens' mean entropy"`
	Keep
	Aggregate
	VESPOOptions
	CovarianceOptions
	Perception Perception `toml:"perception" of:"tokens" doc:"answers have to differ from those behind masked pictures (PAPO)"`
}

// DefaultTokenOptions have the published values of options that are off.
func DefaultTokenOptions() TokenOptions {
	return TokenOptions{SAPOOptions: SAPOOptions{TauPos: 1, TauNeg: 1.05}, Keep: Keep{Entropy: 1}, Aggregate: Aggregate{Mode: "token-mean", Power: 1}, VESPOOptions: VESPOOptions{DefaultVespo()}, CovarianceOptions: CovarianceOptions{DefaultCovariance()}, Perception: DefaultPerception()}
}

// DefaultTokens is PPO's clip as GRPO has it.
func DefaultTokens() TokenLoss {
	return TokenLoss{Objective: ClipObjective.Name, Clipping: DefaultTokenClipping(), TokenOptions: DefaultTokenOptions(), KL: Penalty{Estimator: "k3"}, Correction: DefaultCorrection()}
}

// Check reports options that contradict each other or would do nothing.
func (o TokenLoss) Check(report func(key, problem, hint string)) {
	var f Form // of a name that is unknown, or not of sampled tokens, nothing is known
	if k, ok := ObjectiveNamed(o.Objective); ok && k.Tokens != nil {
		f = *k.Tokens
	}
	clips := f.clips()
	if o.DualClip != 0 && !clips {
		report("dual_clip", fmt.Sprintf("objective %q has no clip that it could bound", o.Objective), "leave it out")
	} else {
		o.checkDual("token", report)
	}
	if !f.Has(OpenRange) {
		o.checkRange("0.2", report)
	}
	switch _, high := o.Bounds(); {
	case o.RatioCap != 0 && !clips:
		report("ratio_cap", fmt.Sprintf("objective %q has no clip that would let a ratio pass", o.Objective), "leave it out")
	case o.RatioCap != 0 && o.RatioCap <= 1+high:
		report("ratio_cap", "lies inside the clip", "write a cap above 1 + clip_high")
	}
	if o.SequenceRatio && !f.Has(AnswerRatio) {
		report("sequence_ratio", fmt.Sprintf("objective %q has a ratio of its own", o.Objective), "leave it out")
	}
	if f.Has(OneNumber) {
		for _, x := range []struct {
			key string
			is  bool
		}{{"kl.weight", o.KL.Weight != 0}, {"entropy_weight", o.EntropyWeight != 0}, {"drift", o.Keep.Drift != 0}, {"entropy_share", o.Keep.byEntropy()}} {
			if x.is {
				report(x.key, fmt.Sprintf("objective %q is one number an answer, and has no place for it", o.Objective), "leave it out")
			}
		}
	}
	if f.Refuse != nil {
		f.Refuse(o, report)
	}
	o.Perception.check(o.Objective, f.Has(OneNumber), report)
	o.Correction.Check(func(key, problem, hint string) { report("correction."+key, problem, hint) })
}

// clips reports whether a bound of the loss is read.
func (f Form) clips() bool {
	_, ok := f.Options.(Clipping)
	return ok
}

// Tokens are the objective of the options over a language model's tokens.
func (o Options) Tokens(objective string) TokenLoss {
	return TokenLoss{Objective: objective, Clipping: o.Clipping, TokenOptions: o.TokenOptions, KL: o.KL.Penalty, Correction: o.Correction}
}

// Tokens are a token objective's inputs: rows are answers.
type Tokens struct {
	LogProb, Old, Advantage, Mask [][]float64
	Weight                        [][]float64 // of the rollout's correction; nil: 1
	Reference                     [][]float64 // log-probabilities, where KL has a weight
	Masked                        [][]float64 // log-probabilities behind masked pictures, where Perception has a weight; NaN: no part in it
	Sampler                       [][]float64 // log-probabilities, of Correction and Keep.Drift, where nil is Old
	Entropy                       [][]float64 // where it is looked at
	Draw                          [][]float64 // a uniform number a token, for clip-cov
	Group                         []int       // whose answers are to one prompt, for gepo; nil: all are
}

// TokenResult is a loss and its gradients.
type TokenResult struct {
	Loss, KL, Entropy float64
	Grad              [][]float64 // by the log-probabilities
	GradEntropy       [][]float64 // by the entropies; nil where nothing reads them
	Metrics           map[string]float64
}

// farthest is where a log-ratio is cut.
const farthest = 20

// Of is the objective.
func (o TokenLoss) Of(t Tokens) (TokenResult, error) {
	if err := o.Known(); err != nil {
		return TokenResult{}, err
	}
	if err := o.complete(t); err != nil {
		return TokenResult{}, err
	}
	corrected, err := o.correct(t)
	if err != nil {
		return TokenResult{}, err
	}
	r, err := o.of(corrected)
	if err == nil && o.Correction.On() {
		maps.Copy(r.Metrics, o.Correction.disagreement(t, corrected))
	}
	return r, err
}

// of is the objective of tokens that were corrected.
func (o TokenLoss) of(t Tokens) (TokenResult, error) {
	form, err := o.form()
	switch {
	case err != nil:
		return TokenResult{}, err
	case form.Whole != nil:
		return form.Whole(o, t), nil
	case form.As != nil:
		return form.As(o).of(t)
	}
	w, err := o.Aggregate.Weights(t.Mask)
	if err != nil {
		return TokenResult{}, err
	}
	b := wholeBatch{kept: o.Keep.mask(t)}
	if form.Choose != nil {
		b.chosen = form.Choose(o, t)
	}
	r := TokenResult{Grad: zeros(t.LogProb), Metrics: map[string]float64{}}
	moved, clipped, dual, seen := zeros(t.LogProb), zeros(t.LogProb), zeros(t.LogProb), 0.0
	for i, lp := range t.LogProb {
		a := answerOf(t, i, form)
		for k := range lp {
			d := lp[k] - t.Old[i][k]
			if moved[i][k] = -d; !form.Has(RawChange) {
				moved[i][k] = -cutLog(d, farthest)
			}
			if t.Mask[i][k] == 0 {
				continue
			}
			v := form.Token(o, at{lp[k], d, t.Advantage[i][k], i, k}, a, b)
			v = v.times(b.kept[i][k])
			if t.Weight != nil && !form.Has(OwnCorrection) {
				v = v.times(t.Weight[i][k])
			}
			if o.KL.Weight != 0 {
				kl := o.reference(lp[k], t.Reference[i][k], d, a.mean)
				r.KL += float64(kl.value * w[i][k])
				v = v.plus(kl.times(o.KL.Weight))
			}
			if o.Perception.On() && !math.IsNaN(t.Masked[i][k]) {
				apart := o.Perception.of(lp[k], t.Masked[i][k])
				seen -= float64(apart.value / o.Perception.Weight * w[i][k])
				v = v.plus(apart)
			}
			r.Loss += float64(v.value * w[i][k])
			r.Grad[i][k] += float64(v.own * w[i][k])
			share(r.Grad[i], t.Mask[i], v.shared*w[i][k])
			clipped[i][k], dual[i][k] = v.clipped, v.dual
		}
	}
	o.addEntropy(t, b.kept, &r)
	if o.Perception.On() {
		o.Perception.addSurprisal(t, &r)
		r.Metrics["perception"] = seen
	}
	r.Metrics["ppo_kl"], r.Metrics["clipped"], r.Metrics["clipped_dual"] = maskedMean(moved, t.Mask), maskedMean(clipped, t.Mask), maskedMean(dual, t.Mask)
	return r, nil
}

// complete reports missing inputs of an objective.
func (o TokenLoss) complete(t Tokens) error {
	form, err := o.form()
	if err != nil {
		return err
	}
	needs := []struct {
		what string
		is   bool
		rows [][]float64
	}{
		{"old log-probabilities", true, t.Old}, {"advantages", true, t.Advantage}, {"masks", true, t.Mask},
		{"rollout weights", t.Weight != nil, t.Weight}, {"log-probabilities of the reference", o.KL.Weight != 0, t.Reference},
		{"log-probabilities behind masked pictures", o.Perception.On(), t.Masked},
		{"log-probabilities of the sampler", t.Sampler != nil || o.Correction.On(), t.Sampler},
		{"entropies", o.EntropyWeight != 0 || o.Keep.byEntropy(), t.Entropy}, {"draws", form.Has(TokenDraws), t.Draw},
	}
	for _, n := range needs {
		if !n.is {
			continue
		}
		if len(n.rows) != len(t.LogProb) {
			return fmt.Errorf("%d answers have log-probabilities, %d have %s", len(t.LogProb), len(n.rows), n.what)
		}
		for i, row := range n.rows {
			if len(row) != len(t.LogProb[i]) {
				return fmt.Errorf("answer %d has %d log-probabilities, and %d %s", i, len(t.LogProb[i]), len(row), n.what)
			}
		}
	}
	return nil
}

// wholeBatch has tokens' facts about all others.
type wholeBatch struct{ kept, chosen [][]float64 }

// share spreads the gradient of an answer's mean log-ratio over its tokens.
func share(grad, mask []float64, g float64) {
	if g == 0 {
		return
	}
	n := max(sum(mask), 1)
	for k, on := range mask {
		grad[k] += g * on / n
	}
}

// addEntropy takes the bonus off. Tokens that Keep leaves out have none. An aggregate over a
// number of Tokens divides by it (TRL's dapo); the others by the tokens at hand.
func (o TokenLoss) addEntropy(t Tokens, kept [][]float64, r *TokenResult) {
	if o.EntropyWeight == 0 {
		return
	}
	on, n := zeros(t.Mask), 0.0
	drift := o.Keep
	drift.Drift = 0 // TRL drops answers from the policy's part alone
	if o.Keep.Drift != 0 {
		kept = drift.mask(t)
	}
	for i, m := range t.Mask {
		for k := range m {
			on[i][k] = m[k] * kept[i][k]
			n += on[i][k]
		}
	}
	if o.Aggregate.Mode == "token-mean" && o.Aggregate.Tokens != 0 {
		n = o.Aggregate.Tokens / one(o.Aggregate.Workers)
	}
	n = max(n, 1)
	r.Entropy = weighed(t.Entropy, on) / n
	r.Loss -= float64(o.EntropyWeight * r.Entropy)
	r.GradEntropy = on
	for i := range on {
		for k := range on[i] {
			on[i][k] *= -o.EntropyWeight / n
		}
	}
}

// Which tokens the policy's part looks at. Left-out tokens still count in the mean, and keep
// their KL.
//
//	Drift    answers with a negative advantage that the policy has left, the mean of
//	         sampler - lp above Drift, are left out (DeepSeek-V3.2; TRL's off-policy mask)
//	Entropy  only this share of tokens with the highest entropy is kept (Wang et al., 2025:
//	         the 80/20 rule; TRL's top_entropy_quantile). The bound is a quantile in float32
//	         with linear interpolation, as torch takes it

// Keep leaves tokens out.
type Keep struct {
	Drift   float64 `toml:"drift" range:"[0,inf)" of:"tokens" doc:"largest mean log-ratio of sampler to policy of an answer with a negative advantage; 0: any"`
	Entropy float64 `toml:"entropy_share" range:"[0,1]" of:"tokens" doc:"share of the tokens with the highest entropy; 0 or 1: all"`
}

func (o Keep) byEntropy() bool { return o.Entropy > 0 && o.Entropy < 1 }

// mask is 1 where a token is kept.
func (o Keep) mask(t Tokens) [][]float64 {
	keep := zeros(t.Mask)
	least := math.Inf(-1)
	if o.byEntropy() {
		least = o.leastEntropy(t)
	}
	for i, m := range t.Mask {
		drifted := o.Drift > 0 && o.drift(t, i) > o.Drift
		for k, on := range m {
			if on == 0 || drifted && t.Advantage[i][k] < 0 || o.byEntropy() && t.Entropy[i][k]*on < least {
				continue
			}
			keep[i][k] = 1
		}
	}
	return keep
}

// drift is the mean of sampler - lp over an answer's tokens.
func (o Keep) drift(t Tokens, i int) float64 {
	sampler := t.Sampler
	if sampler == nil {
		sampler = t.Old
	}
	total := 0.0
	for k, on := range t.Mask[i] {
		if on != 0 {
			total += float64((sampler[i][k] - t.LogProb[i][k]) * on)
		}
	}
	return total / max(sum(t.Mask[i]), 1)
}

// leastEntropy is the quantile that kept tokens reach.
func (o Keep) leastEntropy(t Tokens) float64 {
	var all []float32
	for i, m := range t.Mask {
		for k, on := range m {
			if on != 0 {
				all = append(all, float32(t.Entropy[i][k]))
			}
		}
	}
	if len(all) == 0 {
		return math.Inf(-1)
	}
	slices.Sort(all)
	rank := float32(float32(1-o.Entropy) * float32(len(all)-1))
	below := int(rank)
	a, b, part := all[below], all[min(below+1, len(all)-1)], rank-float32(below)
	if part < 0.5 {
		return float64(a + float32(part*(b-a)))
	}
	return float64(b - float32((b-a)*(1-part)))
}
