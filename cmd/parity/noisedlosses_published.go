package main

import "math"

// Direct alignment (the SRPO of Shen et al., 2025, for diffusion: one step of a noised
// picture is undone with the noise that is known, and a reward's gradient flows back):
//
//	noisy = a·e + (1-a)·x0,  x0' = (noisy + (b - a)·v - b·e)/(1-b)
//
// where the step goes from sigma a to b.

// directNoisy is the noised picture.
func directNoisy(clean, noise []float64, a float64) []float64 {
	return eachAt(clean, func(i int, c float64) float64 { return float64(a*noise[i]) + float64((1-a)*c) })
}

// directClean is the recovered picture, and its slope by the velocity.
func directClean(noisy, v, noise []float64, a, b float64) (clean []float64, slope float64) {
	clean = make([]float64, len(noisy))
	for i, x := range noisy {
		clean[i] = (x + float64((b-a)*v[i]) - float64(b*noise[i])) / (1 - b)
	}
	return clean, (b - a) / (1 - b)
}

// rewardHinge is mean of max(margin - reward, 0) over accumulation, and its gradient.
func rewardHinge(rewards []float64, margin, accumulation float64) (loss float64, grad []float64) {
	grad = make([]float64, len(rewards))
	n := float64(len(rewards)) * accumulation
	for i, r := range rewards {
		loss += math.Max(margin-r, 0) / n
		if margin > r {
			grad[i] = -1 / n
		}
	}
	return loss, grad
}
