package loss

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// answers are three of four tokens, with an observation inside and one answer empty.
func answers(r *rand.Rand) Tokens {
	t := Tokens{Old: rows(r, 4, 4), Advantage: rows(r, 4, 4), Weight: rows(r, 4, 4),
		Mask: [][]float64{{1, 1, 1, 1}, {1, 0, 1, 0}, {0, 1, 1, 0}, {0, 0, 0, 0}}}
	for i, row := range t.Old {
		lp := make([]float64, len(row))
		for k, v := range row {
			lp[k] = v + 0.3*r.NormFloat64()
			t.Weight[i][k] = math.Exp(t.Weight[i][k] / 3)
			t.Advantage[i][k] = t.Advantage[i][0]
		}
		t.LogProb = append(t.LogProb, lp)
	}
	return t
}

func TestTokenGradients(t *testing.T) {
	for seed := range uint64(6) {
		x := answers(rand.New(rand.NewPCG(seed, 2)))
		for _, objective := range []string{"ppo", "gspo-mean", "sapo", "gpg", "gmpo"} {
			for _, mode := range []string{"token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"} {
				o := TokenLoss{Objective: objective, Low: 0.2, High: 0.28, Dual: 1.5, TauPos: 1, TauNeg: 1.05, Aggregate: Aggregate{Mode: mode}}
				got, err := o.Of(x)
				if err != nil {
					t.Fatal(err)
				}
				for i := range x.LogProb {
					differences(t, fmt.Sprint(objective, " ", mode, " ", i), x.LogProb[i], got.Grad[i], func() float64 { r, _ := o.Of(x); return r.Loss })
				}
			}
		}
	}
}

// gspo and cispo hold a ratio fixed: the gradient is that of the loss with it held.
func TestHeldRatios(t *testing.T) {
	x := answers(rand.New(rand.NewPCG(8, 2)))
	w, err := Aggregate{Mode: "token-mean"}.Weights(x.Mask)
	if err != nil {
		t.Fatal(err)
	}
	cispo, err := TokenLoss{Objective: "cispo", Low: 0.2, High: 0.28, Aggregate: Aggregate{Mode: "token-mean"}}.Of(x)
	if err != nil {
		t.Fatal(err)
	}
	gspo, err := TokenLoss{Objective: "gspo", Low: 9, High: 9, Aggregate: Aggregate{Mode: "token-mean"}}.Of(x)
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range x.LogProb {
		for k := range row {
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

// Right after a roll every objective's gradient is the policy gradient.
func TestFirstTokenUpdate(t *testing.T) {
	x := answers(rand.New(rand.NewPCG(9, 2)))
	x.Weight = nil
	x.LogProb = x.Old
	w, err := Aggregate{Mode: "seq-mean-token-mean"}.Weights(x.Mask)
	if err != nil {
		t.Fatal(err)
	}
	for _, objective := range []string{"ppo", "gspo", "gspo-mean", "cispo", "sapo", "gpg"} {
		o := TokenLoss{Objective: objective, Low: 1e-9, High: 1e-9, TauPos: 1, TauNeg: 1, Aggregate: Aggregate{Mode: "seq-mean-token-mean"}}
		got, err := o.Of(x)
		if err != nil {
			t.Fatal(err)
		}
		for i := range w {
			for k := range w[i] {
				if want := -x.Advantage[i][k] * w[i][k]; math.Abs(got.Grad[i][k]-want) > 1e-9 {
					t.Errorf("%s: %v, want %v", objective, got.Grad[i][k], want)
				}
			}
		}
	}
	if (TokenLoss{Objective: "odd"}).Known() == nil || (TokenLoss{Objective: "ppo"}).Known() != nil {
		t.Error("which objectives are known")
	}
}

func TestHeadGradients(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	logits := random(r, 6)
	_, grad := LogProb(logits, 2, 1.5)
	differences(t, "log-probability", logits, grad, func() float64 { lp, _ := LogProb(logits, 2, 0); return 1.5 * lp })
	_, grad = Entropy(logits, 0.7)
	differences(t, "entropy", logits, grad, func() float64 { h, _ := Entropy(logits, 0); return 0.7 * h })
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
	for rules, bounds := range map[string]string{"token": "1", "odd_k1": "1", "token_k2": "x", "token_k1,token_k2": "1,2,3"} {
		if _, err := Rejection(log, mask, rules, bounds); err == nil {
			t.Errorf("%s with %s", rules, bounds)
		}
	}
	same := OffPolicy([][]float64{{-1, -2}}, [][]float64{{-1, -2}}, [][]float64{{1, 1}})
	for _, name := range []string{"kl", "k3_kl", "log_ppl_diff", "chi2_token", "chi2_seq"} {
		if math.Abs(same[name]) > 1e-7 {
			t.Errorf("one policy, but %s is %v", name, same[name])
		}
	}
}
