package loss

import "github.com/darkroom-rl/darkroom/portable"

// VESPO (TRL): a smooth weight of the whole answer in place of a clip,
//
//	-φ(w)·A·lp,  φ(w) = e^λ·w^k·e^(-λw),  w = Π r · Π rollout weight
//
// φ(1) = 1; k and λ by the sign of A. No gradient flows through φ. Each log-ratio is cut to
// ±20, rollout weights at 1e-8 and e^20, and so is their sum. Rollout weights are taken of
// all tokens, masked ones too, which have weight 1 (correction.go).

// Vespo is the weight's shape.
type Vespo struct {
	KPos      float64 `toml:"k_pos" range:"[0,inf)" doc:"how fast the weight rises from 0 where the advantage is not negative"`
	LambdaPos float64 `toml:"lambda_pos" range:"(0,inf)" doc:"how fast it falls beyond k/lambda"`
	KNeg      float64 `toml:"k_neg" range:"[0,inf)" doc:"as k_pos, where the advantage is negative"`
	LambdaNeg float64 `toml:"lambda_neg" range:"(0,inf)" doc:"as lambda_pos, where the advantage is negative"`
}

// DefaultVespo is the published shape.
func DefaultVespo() Vespo { return Vespo{KPos: 2, LambdaPos: 3, KNeg: 3, LambdaNeg: 2} }

const leastWeight = 1e-8

func (o Vespo) weight(log, a float64) float64 {
	k, lambda := o.KPos, o.LambdaPos
	if a < 0 {
		k, lambda = o.KNeg, o.LambdaNeg
	}
	lambda = max(lambda, 1e-4)
	return portable.Exp(lambda + float64(k*log) - float64(lambda*portable.Exp(log)))
}

// sequenceLog is the logarithm of an answer's ratio.
func sequenceLog(t Tokens, i int) float64 {
	least, log := portable.Log(leastWeight), 0.0
	for k, on := range t.Mask[i] {
		if on != 0 {
			log += float64(cutLog(t.LogProb[i][k]-t.Old[i][k], farthest) * on)
		}
		if t.Weight != nil {
			log += min(max(portable.Log(t.Weight[i][k]), least), farthest)
		}
	}
	return min(max(log, least), farthest)
}

// VESPOOptions are the options of VESPO alone.
type VESPOOptions struct {
	Vespo Vespo `toml:"vespo"`
}

// VESPOObjective is the smooth weight.
var VESPOObjective = Objective{
	Name: "vespo", Card: "A smooth weight of the whole sequence in place of a clip (VESPO).",
	Paper: "VESPO", Formula: "a smooth weight of the whole answer's ratio, without gradient, times -A·lp", Cases: []string{"vlm.loss_trl"},
	Tokens: &Form{
		Learns: SampledTokens, Needs: Advantages | Ratio | PlainAtOne | OwnCorrection, Options: VESPOOptions{},
		Token: func(o TokenLoss, x at, of answer, _ wholeBatch) token {
			phi := o.Vespo.weight(of.sequence, x.a)
			return token{value: -phi * x.a * x.lp, own: -phi * x.a}
		},
	},
}
