package loss

import "fmt"

// The one table of token objectives, by name. tokens.go has their formulas.

// A tokenKind is how an objective is computed: by exactly one of the three functions.
type tokenKind struct {
	name  string
	token func(o TokenLoss, x at, of answer, b wholeBatch) token // a token at a time
	whole func(o TokenLoss, t Tokens) TokenResult                // an answer at a time
	as    func(o TokenLoss) TokenLoss                            // as another objective with these settings
}

func tokenKinds() []tokenKind {
	return []tokenKind{
		{name: "ppo", token: func(o TokenLoss, x at, of answer, _ wholeBatch) token {
			d, live := o.logRatio(x, of)
			return o.ofRatio(o.clip(d, x.a, live))
		}},
		{name: "gspo", token: func(o TokenLoss, x at, of answer, _ wholeBatch) token {
			return o.clip(min(of.mean, 10), x.a, of.mean <= 10)
		}},
		{name: "gspo-mean", as: func(o TokenLoss) TokenLoss {
			o.Objective, o.SequenceRatio = "ppo", true
			return o
		}},
		{name: "luspo", as: func(o TokenLoss) TokenLoss {
			o.Objective, o.SequenceRatio, o.Aggregate = "ppo", true, Aggregate{Mode: "seq-mean-token-sum", AllRows: true}
			return o
		}},
		{name: "cispo", token: func(o TokenLoss, x at, of answer, _ wholeBatch) token {
			d, _ := o.logRatio(x, of)
			return o.weightOnly(d, x)
		}},
		{name: "sapo", token: func(o TokenLoss, x at, of answer, _ wholeBatch) token {
			d, live := o.logRatio(x, of)
			return o.ofRatio(o.soft(d, x.a, live))
		}},
		{name: "gpg", token: func(_ TokenLoss, x at, _ answer, _ wholeBatch) token {
			return token{value: -x.a * x.lp, own: -x.a}
		}},
		{name: "distill", token: func(TokenLoss, at, answer, wholeBatch) token { return token{} }}, // the distance alone
		{name: "gmpo", whole: TokenLoss.geometric},
		{name: "gepo", whole: TokenLoss.groupExpectation},
		{name: "vespo", token: func(o TokenLoss, x at, of answer, _ wholeBatch) token {
			phi := o.Vespo.weight(of.sequence, x.a)
			return token{value: -phi * x.a * x.lp, own: -phi * x.a}
		}},
		{name: "clip-cov", token: covariant},
		{name: "kl-cov", token: covariant},
	}
}

// TokenObjectives are their names.
func TokenObjectives() (names []string) {
	for _, k := range tokenKinds() {
		names = append(names, k.name)
	}
	return names
}

// Known says whether an objective exists.
func (o TokenLoss) Known() error {
	_, err := o.kind()
	return err
}

// kind is the objective's row of the table.
func (o TokenLoss) kind() (tokenKind, error) {
	for _, k := range tokenKinds() {
		if k.name == o.Objective {
			return k, nil
		}
	}
	return tokenKind{}, fmt.Errorf("token objective %q is not known: write one of %v", o.Objective, TokenObjectives())
}
