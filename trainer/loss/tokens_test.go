package loss

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// answers are three of four tokens, with an observation inside and one answer empty.
func answers(r *rand.Rand) Tokens {
	t := Tokens{Old: rows(r, 4, 4), Advantage: rows(r, 4, 4), Weight: rows(r, 4, 4), Reference: rows(r, 4, 4), Sampler: rows(r, 4, 4), Entropy: rows(r, 4, 4), Draw: rows(r, 4, 4),
		Mask: [][]float64{{1, 1, 1, 1}, {1, 0, 1, 0}, {0, 1, 1, 0}, {0, 0, 0, 0}}}
	for i, row := range t.Old {
		lp, masked := make([]float64, len(row)), make([]float64, len(row))
		for k, v := range row {
			lp[k] = v + 0.3*r.NormFloat64()
			t.Weight[i][k] = math.Exp(t.Weight[i][k] / 3)
			t.Advantage[i][k] = t.Advantage[i][0]
			t.Reference[i][k] = v + 0.3*t.Reference[i][k]
			t.Sampler[i][k] = v + 0.3*t.Sampler[i][k]
			t.Entropy[i][k] = math.Abs(t.Entropy[i][k])
			masked[k] = t.Reference[i][k] - 0.4
		}
		t.Masked = append(t.Masked, masked)
		t.LogProb = append(t.LogProb, lp)
	}
	return t
}

// tokenTable is every objective whose value has the gradient, with every option that
// changes it.
func tokenTable() map[string]TokenLoss {
	table := map[string]TokenLoss{}
	for _, objective := range []string{"clip", "gspo-mean", "luspo", "sapo", "gpg", "gmpo", "gepo", "clip-cov", "kl-cov"} {
		for _, mode := range Aggregates() {
			o := DefaultTokens()
			o.Objective, o.ClipHigh, o.Aggregate.Mode = objective, 0.28, mode
			o.Cov = Covariance{Share: 0.3, Low: -0.1, High: 2, Weight: 0.7}
			table[objective+" "+mode] = o
		}
	}
	for name, change := range map[string]func(*TokenLoss){
		"dual":            func(o *TokenLoss) { o.DualClip = 1.1 },
		"cap":             func(o *TokenLoss) { o.RatioCap = 1.3 },
		"cap in the clip": func(o *TokenLoss) { o.RatioCap = 1.1 },
		"one ratio":       func(o *TokenLoss) { o.SequenceRatio = true },
		"one soft ratio":  func(o *TokenLoss) { o.Objective, o.SequenceRatio = "sapo", true },
		"drift":           func(o *TokenLoss) { o.Keep.Drift = 0.01 },
		"entropy share":   func(o *TokenLoss) { o.Keep.Entropy = 0.5 },
		"all rows":        func(o *TokenLoss) { o.Aggregate = Aggregate{Mode: "seq-mean-token-mean", AllRows: true, AtLeast: true} },
		"whole batch":     func(o *TokenLoss) { o.Aggregate = Aggregate{Mode: "token-mean", Tokens: 31, Workers: 2} },
		"k1":              func(o *TokenLoss) { o.KL = Penalty{Weight: 0.3, Estimator: "k1"} },
		"k2":              func(o *TokenLoss) { o.KL = Penalty{Weight: 0.3, Estimator: "k2"} },
		"k3":              func(o *TokenLoss) { o.KL = Penalty{Weight: 0.3, Estimator: "k3"} },
		"abs":             func(o *TokenLoss) { o.KL = Penalty{Weight: 0.3, Estimator: "abs"} },
		"corrected":       func(o *TokenLoss) { o.KL = Penalty{Weight: 0.3, Estimator: "k3", Corrected: true} },
		"corrected, answer": func(o *TokenLoss) {
			o.SequenceRatio, o.KL = true, Penalty{Weight: 0.3, Estimator: "k3", Corrected: true}
		},
		"entropy":    func(o *TokenLoss) { o.EntropyWeight = 0.2 },
		"perception": func(o *TokenLoss) { o.Perception.Weight, o.Perception.Surprisal = 0.3, 0.2 },
		"perception, answers": func(o *TokenLoss) {
			o.Perception.Weight, o.Perception.Surprisal, o.Aggregate.Mode = 0.3, 0.2, "seq-mean-token-mean"
		},
		"entropy of some": func(o *TokenLoss) { o.EntropyWeight, o.Keep = 0.2, Keep{Drift: 0.01, Entropy: 0.5} },
		"entropy, batch":  func(o *TokenLoss) { o.EntropyWeight, o.Aggregate = 0.2, Aggregate{Mode: "token-mean", Tokens: 31} },
	} {
		o := DefaultTokens()
		change(&o)
		table[name] = o
	}
	return table
}

func TestTokenGradients(t *testing.T) {
	for name, o := range tokenTable() {
		for seed := range uint64(4) {
			x := answers(rand.New(rand.NewPCG(seed, 2)))
			got, err := o.Of(x)
			if err != nil {
				t.Fatal(name, err)
			}
			f := func() float64 { r, _ := o.Of(x); return r.Loss }
			for i := range x.LogProb {
				differences(t, fmt.Sprint(name, " ", i), x.LogProb[i], got.Grad[i], f)
				if got.GradEntropy != nil {
					differences(t, fmt.Sprint(name, " entropy ", i), x.Entropy[i], got.GradEntropy[i], f)
				}
			}
		}
	}
}

// Finite differences cannot see this: which tokens are left out.
func TestLeftOut(t *testing.T) {
	x := Tokens{LogProb: [][]float64{{-1, -1}, {-2, -2}}, Old: [][]float64{{-1, -1}, {-2, -2}}, Advantage: [][]float64{{1, 1}, {-1, -1}}, Mask: [][]float64{{1, 1}, {1, 1}},
		Sampler: [][]float64{{-0.5, -0.5}, {-1.5, -1.5}}, Entropy: [][]float64{{1, 2}, {3, 4}}, Draw: [][]float64{{0.9, 0.8}, {0.7, 0.1}}}
	for name, c := range map[string]struct {
		change func(*TokenLoss)
		want   [][]float64 // of the gradient, times the tokens
	}{
		"all":        {func(*TokenLoss) {}, [][]float64{{-1, -1}, {1, 1}}},
		"drifted":    {func(o *TokenLoss) { o.Keep.Drift = 0.4 }, [][]float64{{-1, -1}, {0, 0}}},
		"not so far": {func(o *TokenLoss) { o.Keep.Drift = 0.6 }, [][]float64{{-1, -1}, {1, 1}}},
		"high half":  {func(o *TokenLoss) { o.Keep.Entropy = 0.5 }, [][]float64{{0, 0}, {1, 1}}},
		"highest":    {func(o *TokenLoss) { o.Keep.Entropy = 0.2 }, [][]float64{{0, 0}, {0, 1}}},
		// All covariances are 1/2: the least draws are left out, or the first ones pulled.
		"covariance": {func(o *TokenLoss) { o.Objective, o.Cov = "clip-cov", Covariance{Share: 0.5, High: 1} }, [][]float64{{-1, -1}, {0, 0}}},
		"above":      {func(o *TokenLoss) { o.Objective, o.Cov = "clip-cov", Covariance{Share: 0.5, Low: 0.6, High: 1} }, [][]float64{{-1, -1}, {1, 1}}},
	} {
		o := DefaultTokens()
		c.change(&o)
		got, err := o.Of(x)
		if err != nil {
			t.Fatal(name, err)
		}
		for i := range c.want {
			for k, want := range c.want[i] {
				if math.Abs(got.Grad[i][k]*4-want) > 1e-12 {
					t.Errorf("%s: %v, want %v", name, got.Grad, c.want)
				}
			}
		}
	}
}

// The published values of weights that have a closed form (survey of the projects' code).
func TestPublishedWeights(t *testing.T) {
	v := DefaultVespo()
	for _, c := range []struct{ w, a, want float64 }{{1, 1, 1}, {1, -1, 1}, {0.5, 1, 1.1204}, {0.5, -1, 0.3398}, {2, 1, 0.1991}, {2, -1, 1.0827}} {
		if got := v.weight(math.Log(c.w), c.a); math.Abs(got-c.want) > 5e-5 {
			t.Errorf("vespo at %g, advantage %g: %v, want %v", c.w, c.a, got, c.want)
		}
	}
	o := DefaultTokens()
	for _, c := range []struct{ r, a, want float64 }{{0.5, 1, 1.5102}, {1, 1, 2}, {1.5, 1, 2.4898}, {0.5, -1, 1.4159}, {1, -1, 1.9048}, {1.5, -1, 2.3936}} {
		if got := -o.soft(math.Log(c.r), c.a, true).value / c.a; math.Abs(got-c.want) > 5e-5 {
			t.Errorf("sapo at %g, advantage %g: %v, want %v", c.r, c.a, got, c.want)
		}
	}
}

// gspo, cispo and vespo hold a ratio fixed: the gradient is that of the loss with it held.
func TestHeldRatios(t *testing.T) {
	x := answers(rand.New(rand.NewPCG(8, 2)))
	w, err := Aggregate{Mode: "token-mean"}.Weights(x.Mask)
	if err != nil {
		t.Fatal(err)
	}
	cispo, err := TokenLoss{Objective: "cispo", Clipping: Clipped(0.2, 0.28, 0), TokenOptions: TokenOptions{Aggregate: Aggregate{Mode: "token-mean"}}}.Of(x)
	if err != nil {
		t.Fatal(err)
	}
	gspo, err := TokenLoss{Objective: "gspo", Clipping: Clipped(9, 0, 0), TokenOptions: TokenOptions{Aggregate: Aggregate{Mode: "token-mean"}}}.Of(x)
	if err != nil {
		t.Fatal(err)
	}
	o := DefaultTokens()
	o.Objective = "vespo"
	vespo, err := o.Of(x)
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range x.LogProb {
		whole := 1.0
		for k := range row {
			if whole *= x.Weight[i][k]; x.Mask[i][k] != 0 {
				whole *= math.Exp(row[k] - x.Old[i][k])
			}
		}
		for k := range row {
			phi := o.Vespo.weight(math.Log(whole), x.Advantage[i][k])
			if want := -phi * x.Advantage[i][k] * w[i][k]; math.Abs(vespo.Grad[i][k]-want) > 1e-9 {
				t.Errorf("vespo: %v, want %v", vespo.Grad[i][k], want)
			}
			a, weight := x.Advantage[i][k], w[i][k]*x.Weight[i][k]
			r := math.Min(math.Max(math.Exp(row[k]-x.Old[i][k]), 0.8), 1.28)
			if want := -r * a * weight; math.Abs(cispo.Grad[i][k]-want) > 1e-12 {
				t.Errorf("cispo: %v, want %v", cispo.Grad[i][k], want)
			}
			if want := -math.Exp(answerMean(x, i)) * a * weight; math.Abs(gspo.Grad[i][k]-want) > 1e-12 {
				t.Errorf("gspo: %v, want %v", gspo.Grad[i][k], want)
			}
		}
	}
}

// Right after a roll every objective's value and gradient are those of the policy gradient:
// ratios are exactly 1, and nothing is clipped however narrow the range is. gepo's are those of its weights.
func TestFirstTokenUpdate(t *testing.T) {
	x := answers(rand.New(rand.NewPCG(9, 2)))
	x.Weight = nil
	x.LogProb = x.Old
	for _, objective := range TokenObjectives() {
		if objective == "distill" { // reads no advantages: TestDistill
			continue
		}
		mode := "seq-mean-token-mean"
		if objective == "luspo" { // has its own
			mode = "seq-mean-token-sum"
		}
		w, err := Aggregate{Mode: mode, AllRows: objective == "luspo" || objective == "gmpo" || objective == "gepo"}.Weights(x.Mask)
		if err != nil {
			t.Fatal(err)
		}
		o := DefaultTokens()
		o.Objective, o.Clipping, o.Aggregate.Mode, o.TauPos, o.TauNeg, o.Cov.Low = objective, Clipping{}, mode, 1, 1, 9
		o.Cov.High, o.Cov.Weight = 10, 0
		if objective == "gepo" { // whose ratio is not 1
			o.Clipping = Clipped(1, 1e3, 0)
		}
		got, err := o.Of(x)
		if err != nil {
			t.Fatal(err)
		}
		value := 0.0
		for i := range w {
			for k := range w[i] {
				g := -x.Advantage[i][k] * w[i][k]
				if objective == "gepo" { // weighs answers by their expectation
					g *= math.Exp(answerMean(Tokens{LogProb: x.Old, Old: zeros(x.Old), Mask: x.Mask}, i)) / expectations(x)[i]
				}
				if value += g; objective == "gpg" || objective == "cispo" || objective == "vespo" {
					value += g * (x.LogProb[i][k] - 1)
				} else if objective == "sapo" {
					value += g // 4·sigmoid(0)
				}
				if math.Abs(got.Grad[i][k]-g) > 1e-8 {
					t.Errorf("%s: %v, want %v", objective, got.Grad[i][k], g)
				}
			}
		}
		if math.Abs(got.Loss-value) > 1e-8 {
			t.Errorf("%s: loss %v, want %v", objective, got.Loss, value)
		}
		if n := got.Metrics["clipped"]; n != 0 && objective != "kl-cov" {
			t.Errorf("%s: %v clipped", objective, n)
		}
	}
}

func TestTokenErrors(t *testing.T) {
	for name, spoil := range map[string]func(*TokenLoss, *Tokens){
		"objective":    func(o *TokenLoss, _ *Tokens) { o.Objective = "odd" },
		"aggregate":    func(o *TokenLoss, _ *Tokens) { o.Aggregate.Mode = "odd" },
		"no old":       func(_ *TokenLoss, x *Tokens) { x.Old = nil },
		"short row":    func(_ *TokenLoss, x *Tokens) { x.Mask[1] = x.Mask[1][:2] },
		"short weight": func(_ *TokenLoss, x *Tokens) { x.Weight = x.Weight[:3] },
		"no reference": func(o *TokenLoss, x *Tokens) { o.KL.Weight, x.Reference = 1, nil },
		"no draws":     func(o *TokenLoss, x *Tokens) { o.Objective, x.Draw = "clip-cov", nil },
		"no entropy":   func(o *TokenLoss, x *Tokens) { o.Keep.Entropy, x.Entropy = 0.5, nil },
		"no sampler":   func(o *TokenLoss, x *Tokens) { o.Correction.Weights, x.Sampler = "token", nil },
		"no such rule": func(o *TokenLoss, _ *Tokens) { o.Correction.Reject = "token" },
		"odd weights":  func(o *TokenLoss, _ *Tokens) { o.Correction.Weights = "odd" },
	} {
		o, x := DefaultTokens(), answers(rand.New(rand.NewPCG(1, 2)))
		spoil(&o, &x)
		if _, err := o.Of(x); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	// A batch without a single token of the model has no loss, and nothing is divided by 0.
	x := answers(rand.New(rand.NewPCG(1, 2)))
	x.Mask = zeros(x.Mask)
	for _, objective := range TokenObjectives() {
		o := DefaultTokens()
		o.Objective, o.EntropyWeight = objective, 1
		got, err := o.Of(x)
		if err != nil || got.Loss != 0 || sum(got.Grad[0]) != 0 {
			t.Errorf("%s without tokens: %v, %v", objective, got, err)
		}
	}
}

func TestTokenCheck(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*TokenLoss)
		keys   string
	}{
		"defaults":      {func(*TokenLoss) {}, ""},
		"dual of sapo":  {func(o *TokenLoss) { o.Objective, o.DualClip = "sapo", 3 }, "dual_clip"},
		"dual below 1":  {func(o *TokenLoss) { o.DualClip = 0.5 }, "dual_clip"},
		"cap inside":    {func(o *TokenLoss) { o.RatioCap = 1.1 }, "ratio_cap"},
		"cap of cispo":  {func(o *TokenLoss) { o.Objective, o.RatioCap = "cispo", 3 }, "ratio_cap"},
		"ratio of gmpo": {func(o *TokenLoss) { o.Objective, o.SequenceRatio = "gmpo", true }, "sequence_ratio"},
		"all the way":   {func(o *TokenLoss) { o.ClipRange = 1 }, "clip_range"},
		"KL of gmpo":    {func(o *TokenLoss) { o.Objective, o.KL.Weight = "gmpo", 1 }, "kl.weight"},
		"bonus of gmpo": {func(o *TokenLoss) { o.Objective, o.EntropyWeight = "gmpo", 1 }, "entropy_weight"},
		"share of gmpo": {func(o *TokenLoss) { o.Objective, o.Keep.Entropy = "gmpo", 0.2 }, "entropy_share"},
		"no rule":       {func(o *TokenLoss) { o.Correction.Bounds = "2" }, "correction.bounds"},
		"an odd bound":  {func(o *TokenLoss) { o.Correction.Reject, o.Correction.Bounds = "token_k1", "-2" }, "correction.bounds"},
		"an odd rule":   {func(o *TokenLoss) { o.Correction.Reject, o.Correction.Bounds = "token_k9", "2" }, "correction.reject"},
		"no weights":    {func(o *TokenLoss) { o.Correction.Least = 1 }, "correction.weights"},
		"no room":       {func(o *TokenLoss) { o.Correction.Weights, o.Correction.Least = "token", 2 }, "correction.least"},
		"normalised": {func(o *TokenLoss) {
			o.Correction = Correction{Weights: "token", Threshold: 2, Drop: true, Normalise: true}
		}, "correction.normalise"},
		"no covariance": {func(o *TokenLoss) { o.Objective, o.Cov.Low = "clip-cov", 5 }, "covariance.low"},
	} {
		o, got := DefaultTokens(), ""
		c.change(&o)
		o.Check(func(key, _, _ string) { got += key })
		if got != c.keys {
			t.Errorf("%s: %q is reported, not %q", name, got, c.keys)
		}
	}
}

func TestValueGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	v, old, returns, mask := rows(r, 2, 3), rows(r, 2, 3), rows(r, 2, 3), [][]float64{{1, 1, 0}, {1, 0, 1}}
	a := Aggregate{Mode: "token-mean"}
	_, g, _, err := Value(v, old, returns, mask, 0.3, a)
	if err != nil {
		t.Fatal(err)
	}
	for i := range v {
		differences(t, "value", v[i], g[i], func() float64 { l, _, _, _ := Value(v, old, returns, mask, 0.3, a); return l })
	}
	for _, kind := range []string{"k1", "k2", "k3", "abs"} {
		x := []float64{0.4}
		_, slope := KL(kind, x[0], -0.3)
		differences(t, kind, x, []float64{slope}, func() float64 { kl, _ := KL(kind, x[0], -0.3); return kl })
	}
}

func TestCorrections(t *testing.T) {
	log, mask := [][]float64{{0.1, -0.4, 30}, {0, 0, 0}}, [][]float64{{1, 1, 0}, {0, 0, 0}}
	w, by := Weights(log, mask, false, 1.05, false)
	if by != 0 || w[0][0] != 1.05 || math.Abs(w[0][1]-math.Exp(-0.4)) > 1e-12 || w[0][2] != 0 {
		t.Error(w, by)
	}
	kept, err := Rejection(log, mask, "token_k1", "0.8_1.2")
	if err != nil || kept[0][0] != 1 || kept[0][1] != 0 || kept[0][2] != 0 {
		t.Error(kept, err)
	}
	for rules, bounds := range map[string]string{"token": "1", "odd_k1": "1", "token_k9": "1", "token_k2": "x", "token_k1": "0", "token_k1,token_k2": "1,2,3"} {
		if _, err := Rejection(log, mask, rules, bounds); err == nil {
			t.Errorf("%s with %s", rules, bounds)
		}
	}
	for name, c := range map[string]struct {
		o    Bounded
		want []float64 // of log 0.1, -0.4 and a masked 30: e^0.1 = 1.105, e^-0.4 = 0.670, e^-0.3 = 0.741, e^-0.15 = 0.861
	}{
		"cut":             {Bounded{Level: "token", Low: 0.8, High: 1.1}, []float64{1.1, 0.8, 1}},
		"dropped":         {Bounded{Level: "token", Drop: true, Low: 0.8, High: 2}, []float64{math.Exp(0.1), 0, 1}},
		"answer":          {Bounded{Level: "sequence", Low: 0.8, High: 2}, []float64{0.8, 0.8, 0.8}},
		"answer dropped":  {Bounded{Level: "sequence", Drop: true, Low: 0.8, High: 2}, []float64{0, 0, 0}},
		"geometric":       {Bounded{Level: "geometric", Low: 0.8, High: 1.05}, []float64{math.Exp(0.1), math.Exp(-0.4), 1}},
		"geometric, gone": {Bounded{Level: "geometric", Low: 0.9, High: 2}, []float64{0, 0, 0}},
	} {
		w, err := c.o.Weights(log, mask)
		for k, want := range c.want {
			if err != nil || math.Abs(w[0][k]-want) > 1e-12 {
				t.Errorf("%s: %v, want %v (%v)", name, w, c.want, err)
				break
			}
		}
	}
	if _, err := (Bounded{Level: "odd"}).Weights(log, mask); err == nil {
		t.Error("an odd level")
	}
	same := OffPolicy([][]float64{{-1, -2}}, [][]float64{{-1, -2}}, [][]float64{{1, 1}})
	for _, name := range []string{"kl", "k3_kl", "log_ppl_diff", "chi2_token", "chi2_seq"} {
		if math.Abs(same[name]) > 1e-7 {
			t.Errorf("one policy, but %s is %v", name, same[name])
		}
	}
}

// TestDisagreement: numbers of the correction are reported, and none without one.
func TestDisagreement(t *testing.T) {
	old := [][]float64{{-1, -1, -1}}
	x := Tokens{LogProb: old, Old: old, Sampler: [][]float64{{-1, -1 - math.Log(4), -1 + math.Log(4)}}, Mask: [][]float64{{1, 1, 1}}, Advantage: [][]float64{{1, 1, 1}}}
	for name, c := range map[string]struct {
		o                        Correction
		weight, most, cut, leave float64
	}{
		"cut":    {Correction{Weights: "token", Threshold: 2}, (1 + 2 + 0.25) / 3, 2, 1. / 3, 0},
		"both":   {Correction{Weights: "token", Threshold: 2, Least: 0.5}, (1 + 2 + 0.5) / 3, 2, 2. / 3, 0},
		"answer": {Correction{Weights: "sequence", Threshold: 0.5}, 0.5, 0.5, 1, 0}, // e^d of the answer's sum is 1
		"drop":   {Correction{Weights: "token", Threshold: 2, Drop: true}, (1 + 0.25) / 2, 1, 0, 1. / 3},
		"reject": {Correction{Reject: "token_k1", Bounds: "0.5_2.0", Threshold: 2}, 1, 1, 0, 2. / 3},
		"none":   {Correction{Weights: "none", Threshold: 2}, 0, 0, 0, 0},
	} {
		o := DefaultTokens()
		o.Correction = c.o
		r, err := o.Of(x)
		if err != nil {
			t.Fatal(name, err)
		}
		for _, n := range Disagreement() {
			if _, ok := r.Metrics[n]; ok != c.o.On() {
				t.Errorf("%s: %s is there: %v", name, n, ok)
			}
		}
		if w, l := r.Metrics["correction_weight"], r.Metrics["correction_left_out"]; math.Abs(w-c.weight) > 1e-9 || math.Abs(l-c.leave) > 1e-9 {
			t.Errorf("%s: mean weight %v, want %v; left out %v, want %v", name, w, c.weight, l, c.leave)
		}
		if most, cut := r.Metrics["correction_most"], r.Metrics["correction_cut"]; math.Abs(most-c.most) > 1e-9 || math.Abs(cut-c.cut) > 1e-9 {
			t.Errorf("%s: largest weight %v, want %v; cut %v, want %v", name, most, c.most, cut, c.cut)
		}
		if kl := r.Metrics["sampler_kl"]; math.Abs(kl) > 1e-9 {
			t.Errorf("%s: log-ratios of 4 and of 1/4 have the mean %v", name, kl)
		}
	}
}

// TestDistill: on-policy distillation is the distance from the reference alone,
// whose gradient with k2 is the log-ratio.
func TestDistill(t *testing.T) {
	o := DefaultTokens()
	o.Objective, o.KL = "distill", Penalty{Weight: 1, Estimator: "k2"}
	lp, ref := [][]float64{{-1, -2}, {-0.5, 0}}, [][]float64{{-1.5, -1}, {-0.5, 0}}
	r, err := o.Of(Tokens{LogProb: lp, Old: lp, Reference: ref, Advantage: [][]float64{{5, 5}, {-5, 0}}, Mask: [][]float64{{1, 1}, {1, 0}}})
	if err != nil || math.Abs(r.Loss-(0.125+0.5)/3) > 1e-12 || r.KL != r.Loss {
		t.Errorf("the loss is %v, the distance %v, %v", r.Loss, r.KL, err)
	}
	for i, row := range r.Grad {
		for k, g := range row {
			if want := (lp[i][k] - ref[i][k]) / 3; math.Abs(g-want) > 1e-12 {
				t.Errorf("the gradient at token %d of row %d is %v, not %v", k, i, g, want)
			}
		}
	}
}

// TestPerceptionOfNothing: tokens with nothing to mask have no part in the distance from masked pictures.
func TestPerceptionOfNothing(t *testing.T) {
	given := answers(rand.New(rand.NewPCG(5, 6)))
	o := DefaultTokens()
	plain, err := o.Of(given)
	if err != nil {
		t.Fatal(err)
	}
	o.Perception.Weight = 0.3
	seen, err := o.Of(given)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range given.Masked {
		for k := range row {
			row[k] = math.NaN()
		}
	}
	none, err := o.Of(given)
	if err != nil {
		t.Fatal(err)
	}
	if none.Loss != plain.Loss || fmt.Sprint(none.Grad) != fmt.Sprint(plain.Grad) || seen.Loss == plain.Loss {
		t.Errorf("loss %v without the part, %v with nothing to mask, %v with it", plain.Loss, none.Loss, seen.Loss)
	}
}

// TestPenaltyCut: a distance within the bound is the estimator's, and one beyond it is the bound, without a gradient.
func TestPenaltyCut(t *testing.T) {
	for _, c := range []struct {
		kind        string
		lp, ref     float64
		want, slope float64
	}{
		{"k1", -1, -4, 3, 1}, {"k1", -1, -14, 10, 0}, {"k1", -14, -1, -10, 0}, {"k2", -1, -4, 4.5, 3}, {"k2", -1, -7, 10, 0}, {"abs", -12, -1, 10, 0},
	} {
		kl, slope := Penalty{Estimator: c.kind, Cut: 10}.Token(c.lp, c.ref)
		if kl != c.want || slope != c.slope {
			t.Errorf("%s of %v and %v: %v with slope %v, want %v and %v", c.kind, c.lp, c.ref, kl, slope, c.want, c.slope)
		}
		free, _ := Penalty{Estimator: c.kind}.Token(c.lp, c.ref)
		if plain, _ := KL(c.kind, c.lp, c.ref); free != plain {
			t.Errorf("%s without a bound is %v, want %v", c.kind, free, plain)
		}
	}
}
