package loss

import "fmt"

// Card: perception-aware policy optimisation (PAPO; Wang et al., 2025). An answer that owes something to the picture is
// less likely behind a masked one. So the distance between both is made larger, and, since that alone would drive
// probabilities down, the policy is held to its own answer:
//
//	loss - Weight·mean k3(lp, masked) + Surprisal·mean(-lp)
//
// with k3 as in kl.go, averaged as the objective is, and the surprisal averaged over all tokens. masked are
// log-probabilities of the same tokens behind masked pictures, by the weights that an update begins with, and have no
// gradient, as in the authors' default. Their second entropy term, of the masked log-probabilities, has no gradient
// either and only moves the value that is logged: it is left out. Which patches are masked: trainer/conversations.
//
// Golden: methods.loss_papo. Invariant (test): the gradient agrees with finite differences.

// Perception is how much an answer has to differ from one behind masked pictures.
type Perception struct {
	Weight    float64 `toml:"weight" range:"[0,inf)" doc:"of the distance from the same answer behind masked pictures, which is made larger; 0: nothing is masked"`
	Surprisal float64 `toml:"surprisal" range:"[0,inf)" doc:"weight of the answer's own mean -log p, which keeps the distance from growing by itself (double entropy loss)"`
	Share     float64 `toml:"share" range:"(0,1]" doc:"of a picture's patches that are black"`
	Patch     int     `toml:"patch" range:"[1,4096]" doc:"pixels of a patch's side"`
}

// DefaultPerception masks as published, and is off.
func DefaultPerception() Perception { return Perception{Share: 0.6, Patch: 14} }

// On reports whether answers are compared with those behind masked pictures.
func (o Perception) On() bool { return o.Weight != 0 }

// check reports options without a place in the objective, and a part that would be alone.
func (o Perception) check(objective string, oneNumber bool, report func(key, problem, hint string)) {
	switch {
	case o.On() && oneNumber:
		report("perception.weight", fmt.Sprintf("objective %q is one number an answer, and has no place for it", objective), "leave it out")
	case o.Surprisal != 0 && !o.On():
		report("perception.surprisal", "holds back a distance that has no weight", "weight = 0.02 beside it, or leave it out")
	}
}

// of is a token's part of the loss.
func (o Perception) of(lp, masked float64) token {
	kl, slope := KL("k3", lp, masked)
	return token{value: -kl, own: -slope}.times(o.Weight)
}

// addSurprisal adds the mean -log p of all tokens.
func (o Perception) addSurprisal(t Tokens, r *TokenResult) {
	if o.Surprisal == 0 {
		return
	}
	n := 0.0
	for _, m := range t.Mask {
		n += sum(m)
	}
	n = max(n, 1)
	r.Loss -= float64(o.Surprisal * weighed(t.LogProb, t.Mask) / n)
	for i, m := range t.Mask {
		for k, on := range m {
			r.Grad[i][k] -= float64(o.Surprisal * on / n)
		}
	}
}
