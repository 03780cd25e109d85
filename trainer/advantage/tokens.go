package advantage

import "math"

// Advantages of an answer's tokens. Rows are answers; a mask says which tokens are the
// model's, and which are observations, or padding.

// Spread gives every token of the mask its answer's advantage.
func Spread(perAnswer []float64, mask [][]float64) [][]float64 {
	out := make([][]float64, len(mask))
	for i, m := range mask {
		out[i] = make([]float64, len(m))
		for t, on := range m {
			if on != 0 {
				out[i][t] = perAnswer[i] * on
			}
		}
	}
	return out
}

// Whiten gives masked values mean 0 and deviation 1: variance over n-1 where unbiased, and
// 1/√(variance + 1e-8). eps is what is added to the number of tokens (verl 1e-8, GDPO's verl
// 0). What lies outside the mask is moved alike; callers mask it.
func Whiten(x, mask [][]float64, unbiased bool, eps float64) [][]float64 {
	var n, mean, variance float64
	for i, m := range mask {
		for t, on := range m {
			n, mean = n+on, mean+x[i][t]*on
		}
	}
	mean /= n + eps
	for i, m := range mask {
		for t, on := range m {
			variance += (x[i][t] - mean) * (x[i][t] - mean) * on
		}
	}
	variance /= n + eps
	if unbiased {
		variance *= n / (n - 1)
	}
	out := make([][]float64, len(x))
	for i, row := range x {
		for _, v := range row {
			out[i] = append(out[i], (v-mean)/math.Sqrt(variance+1e-8))
		}
	}
	return out
}

// Masked is x where the mask is set.
func Masked(x, mask [][]float64) [][]float64 {
	out := make([][]float64, len(x))
	for i, row := range x {
		for t, v := range row {
			out[i] = append(out[i], v*mask[i][t])
		}
	}
	return out
}

// OPO is the reward minus its group's mean weighted by length, which is the optimal baseline
// of a policy gradient under simple assumptions (Hao et al., 2025). One alone keeps its own.
func OPO(ids []int, rewards, lengths []float64) []float64 {
	out := make([]float64, len(rewards))
	for _, g := range Groups(ids) {
		var total, length float64
		for _, i := range present(g, rewards) {
			total, length = total+rewards[i]*lengths[i], length+lengths[i]
		}
		for _, i := range g {
			if out[i] = rewards[i]; len(present(g, rewards)) > 1 {
				out[i] -= total / length
			}
		}
	}
	return out
}

// GPG scales r - mean by samples over those with a reward, over norm (Chu et al., 2025).
func GPG(ids []int, rewards []float64, norm float64) ([]float64, error) {
	o := Options{Over: "group", Baseline: "mean", Scale: "none", Singleton: "raw"}
	out, err := o.Of(ids, rewards)
	nonzero := 0.0
	for _, r := range rewards {
		if r != 0 && !math.IsNaN(r) {
			nonzero++
		}
	}
	for i := range out {
		out[i] *= float64(len(rewards)) / math.Max(nonzero, 1) / norm
	}
	return out, err
}

// Returns are rewards to go, discounted by gamma. Where reset is set, credit does not flow
// back over tokens outside the mask (REINFORCE++ over turns).
func Returns(rewards, mask [][]float64, gamma float64, reset bool) [][]float64 {
	out := make([][]float64, len(rewards))
	for i, row := range rewards {
		out[i] = make([]float64, len(row))
		run := 0.0
		for t := len(row) - 1; t >= 0; t-- {
			run = row[t] + gamma*run
			out[i][t] = run
			if reset {
				run *= mask[i][t]
			}
		}
	}
	return out
}

// GAE is generalised advantage estimation (Schulman et al., 2016) over the model's own
// tokens: the next value and the running sum pass over observations. It returns raw
// advantages, and advantages plus values.
func GAE(rewards, values, mask [][]float64, gamma, lambda float64) (advantages, returns [][]float64) {
	for i, row := range rewards {
		a, r := make([]float64, len(row)), make([]float64, len(row))
		next, acc := 0.0, 0.0
		for t := len(row) - 1; t >= 0; t-- {
			if mask[i][t] > 0 {
				acc = row[t] + gamma*next - values[i][t] + gamma*lambda*acc
				next = values[i][t]
			}
			a[t], r[t] = acc, acc+values[i][t]
		}
		advantages, returns = append(advantages, a), append(returns, r)
	}
	return advantages, returns
}

// Overturned are advantages where some answers ran out of turns: their rewards stay in the
// statistics, and their tokens leave the loss. norm is "std", "none", or "inverse_std",
// which divides by scale/deviation.
func Overturned(ids []int, rewards []float64, exceeded []bool, mask [][]float64, norm string, eps, scale float64) (advantages, lossMask [][]float64) {
	per := make([]float64, len(rewards))
	for _, g := range Groups(ids) {
		r := pick(rewards, present(g, rewards))
		m, d := mean(r), 1.0
		if len(r) == 1 {
			m = 0
		} else {
			d = deviation(r, 1)
		}
		for _, i := range g {
			switch per[i] = rewards[i] - m; norm {
			case "std":
				per[i] /= d + eps
			case "inverse_std":
				per[i] /= scale/d + eps
			}
		}
	}
	for i, m := range mask {
		row := make([]float64, len(m))
		if !exceeded[i] {
			copy(row, m)
		}
		lossMask = append(lossMask, row)
	}
	return Spread(per, mask), lossMask
}
