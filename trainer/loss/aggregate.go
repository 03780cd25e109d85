package loss

import (
	"fmt"
	"slices"

	"github.com/darkroom-rl/darkroom/portable"
)

// How the tokens of a batch become one number. Rows are answers, masks say which tokens
// are the model's; a row without any is not counted as an answer.
//
//	token-mean               sum / tokens
//	seq-mean-token-sum       sum of each row, over rows (GPG, REINFORCE)
//	seq-mean-token-mean      mean of each row, over rows (GRPO, GSPO)
//	seq-mean-token-sum-norm  sum / padded width, or / Scale (Dr.GRPO)
//	delta-l                  Σ over rows of n^-Power · sum, over Scale · Σ n^-Power, n a row's tokens: of all unbiased
//	                         averages the one of least variance where Power is 1 (ΔL Normalization; He et al., 2025,
//	                         as HeteroRL has it, whose Scale is the largest length of an answer). Every row counts,
//	                         one without tokens as if it had one
//
// Over several workers the whole batch's tokens and rows are divided by, and the result is
// times the workers.
type Aggregate struct {
	Mode    string  `toml:"aggregate" enum:"token-mean,seq-mean-token-sum,seq-mean-token-mean,seq-mean-token-sum-norm,delta-l" of:"tokens" doc:"how tokens are averaged"`
	Tokens  float64 `toml:"-"` // of the whole batch; 0: those at hand
	Rows    float64 `toml:"-"`
	Scale   float64 `toml:"aggregate_length" range:"[0,inf)" of:"tokens" doc:"of seq-mean-token-sum-norm and delta-l: the length that sums are divided by; 0: that of the longest answer"`
	Power   float64 `toml:"aggregate_power" range:"[0,1]" of:"tokens" doc:"of delta-l: how much less long answers weigh; 1 has the least variance, 0.75 keeps more of them"`
	Workers float64 `toml:"-"` // 0: 1
	AllRows bool    `toml:"-"` // rows without tokens count too, as 0 (EasyR1, TRL)
	AtLeast bool    `toml:"-"` // a row's length is at least 1, and nothing is added to it (TRL)
}

// Weights are what each token's loss is multiplied by.
func (a Aggregate) Weights(mask [][]float64) ([][]float64, error) {
	tokens, rows, width := 0.0, 0.0, 0.0
	for _, m := range mask {
		n := sum(m)
		tokens += n
		if n > 0 || a.AllRows {
			rows++
		}
		width = float64(len(m))
	}
	workers := one(a.Workers)
	if a.Tokens != 0 {
		tokens = a.Tokens
	}
	if a.Rows != 0 {
		rows = a.Rows
	}
	w := zeros(mask)
	power, powers := a.powers(mask)
	for i, m := range mask {
		n := sum(m)
		for t, on := range m {
			if on == 0 && a.known() { // and nothing is divided by 0 where no token is the model's
				continue
			}
			switch a.Mode {
			case "token-mean":
				w[i][t] = on / tokens * workers
			case "seq-mean-token-sum":
				w[i][t] = on / rows * workers
			case "seq-mean-token-mean":
				if length := n + 1e-8; a.AtLeast {
					w[i][t] = on / max(n, 1) / rows * workers
				} else {
					w[i][t] = on / length / rows * workers
				}
			case "seq-mean-token-sum-norm":
				if a.Scale != 0 {
					width = a.Scale
				}
				w[i][t] = on / width
			case "delta-l":
				if a.Scale != 0 {
					width = a.Scale
				}
				w[i][t] = on * power[i] / (powers * width)
			default:
				return nil, fmt.Errorf("aggregate %q is not known: write one of %v", a.Mode, Aggregates())
			}
		}
	}
	return w, nil
}

// powers are n^-Power of every row, and their sum.
func (a Aggregate) powers(mask [][]float64) (each []float64, total float64) {
	if a.Mode != "delta-l" {
		return nil, 0
	}
	for _, m := range mask {
		p := portable.Exp(-a.Power * portable.Log(max(sum(m), 1)))
		each, total = append(each, p), total+p
	}
	return each, total
}

// Aggregates are the modes' names.
func Aggregates() []string {
	return []string{"token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm", "delta-l"}
}

func (a Aggregate) known() bool { return slices.Contains(Aggregates(), a.Mode) }

func sum(x []float64) (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}

// weighed is the sum of values times weights.
func weighed(values, weights [][]float64) (s float64) {
	for i, row := range values {
		for t, v := range row {
			if w := weights[i][t]; w != 0 {
				s += float64(v * w)
			}
		}
	}
	return s
}

// maskedMean is the mean over tokens that count, as verl takes it: over their number plus
// 1e-8.
func maskedMean(values, mask [][]float64) float64 {
	n := 0.0
	for _, m := range mask {
		n += sum(m)
	}
	return weighed(values, mask) / (n + 1e-8)
}
