package loss

import (
	"fmt"
	"math"

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

// Weights are the factors of each token's loss.
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
	average, known := a.average()
	for i, m := range mask {
		n := sum(m)
		for t, on := range m {
			if on == 0 && known { // and nothing is divided by 0 where no token is the model's
				continue
			}
			if !known {
				return nil, fmt.Errorf("aggregate %q is not known: write one of %v", a.Mode, Aggregates())
			}
			over := averaged{on: on, n: n, tokens: tokens, rows: rows, width: width, workers: workers, powers: powers}
			if a.Scale != 0 {
				over.width = a.Scale
			}
			if power != nil {
				over.power = power[i]
			}
			w[i][t] = average.Weight(a, over)
		}
	}
	return w, nil
}

// An Average is a way to average over decisions.
type Average struct {
	Name, Card string
	Weight     func(a Aggregate, x averaged) float64
}

// averaged is a token of a batch: its mask, the tokens of its row, those and the rows of the batch, the width that sums
// are divided by, the workers, and the powers of its row's length and of all.
type averaged struct{ on, n, tokens, rows, width, workers, power, powers float64 }

// Averages are all ways to average.
func Averages() []Average {
	return []Average{
		{"token-mean", "All decisions weigh the same (DAPO, CISPO).", func(_ Aggregate, x averaged) float64 { return x.on / x.tokens * x.workers }},
		{"seq-mean-token-sum", "Mean over samples of the sum of each.", func(_ Aggregate, x averaged) float64 { return x.on / x.rows * x.workers }},
		{"seq-mean-token-mean", "Mean over samples of the mean of each (GRPO, GSPO).", func(a Aggregate, x averaged) float64 {
			if a.AtLeast {
				return x.on / max(x.n, 1) / x.rows * x.workers
			}
			return x.on / (x.n + 1e-8) / x.rows * x.workers
		}},
		{"seq-mean-token-sum-norm", "Sum over a constant length (Dr.GRPO).", func(_ Aggregate, x averaged) float64 { return x.on / x.width }},
		{"delta-l", "Sums over a constant length, long answers weighing less: the unbiased average of least variance (ΔL Normalization).",
			func(_ Aggregate, x averaged) float64 { return x.on * x.power / (x.powers * x.width) }},
	}
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
func Aggregates() (names []string) {
	for _, a := range Averages() {
		names = append(names, a.Name)
	}
	return names
}

// average is the mode's.
func (a Aggregate) average() (Average, bool) {
	for _, x := range Averages() {
		if x.Name == a.Mode {
			return x, true
		}
	}
	return Average{}, false
}

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

// Means, deviations and distances of rows.

func one(x float64) float64 {
	if x == 0 {
		return 1
	}
	return x
}

// of is the element of a row, or the last one: an input that all rows share is given once.
func of(x []float64, i int) float64 { return x[min(i, len(x)-1)] }

// average is the mean of numbers.
func average(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// spread is the deviation, 0 where there are too few numbers.
func spread(x []float64, ddof int) float64 {
	if len(x) <= ddof {
		return 0
	}
	m, squares := average(x), 0.0
	for _, v := range x {
		squares += float64((v - m) * (v - m))
	}
	return math.Sqrt(squares / float64(len(x)-ddof))
}

// distance is the mean squared difference.
func distance(x, y []float64) float64 {
	sum := 0.0
	for i, v := range x {
		sum += float64((v - y[i]) * (v - y[i]))
	}
	return sum / float64(len(x))
}

// zeros has the shape of x.
func zeros(x [][]float64) [][]float64 {
	z := make([][]float64, len(x))
	for i := range x {
		z[i] = make([]float64, len(x[i]))
	}
	return z
}

// addTimes adds w·y to x.
func addTimes(x, y [][]float64, w float64) {
	for i, row := range y {
		for e, v := range row {
			x[i][e] += float64(w * v)
		}
	}
}
