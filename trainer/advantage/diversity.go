package advantage

import "math"

// Gardo weighs what is better than its group by how unlike the others it is: with features
// of unit length and d the distance 1 - cos to the nearest other member, a positive r - mean
// is times d over the group's mean of d. No scale.
func Gardo(ids []int, rewards []float64, features [][]float64) []float64 {
	out := make([]float64, len(rewards))
	for i := range out {
		out[i] = math.NaN()
	}
	for _, g := range Groups(ids) {
		g = present(g, rewards)
		if len(g) == 0 {
			continue
		}
		m := mean(pick(rewards, g))
		distance := make([]float64, len(g))
		for k, i := range g {
			distance[k] = math.Inf(1)
			for _, j := range g {
				if j != i {
					cos := math.Min(math.Max(cosine(features[i], features[j]), -1), 1)
					distance[k] = math.Min(distance[k], 1-cos)
				}
			}
		}
		for k, i := range g {
			if out[i] = rewards[i] - m; out[i] >= 0 && len(g) > 1 {
				out[i] *= distance[k] / mean(distance)
			}
		}
	}
	return out
}

func cosine(x, y []float64) float64 {
	var xy, xx, yy float64
	for i, v := range x {
		xy, xx, yy = xy+v*y[i], xx+v*v, yy+y[i]*y[i]
	}
	return xy / math.Sqrt(xx) / math.Sqrt(yy)
}
