package loss

import "math"

// Steps weigh by their noise: a step that draws much decides much.
//
//	TempFlow   advantages times 2.25·τ inside the clip (Clip.NoiseWeight); rows of a step share τ
//	LongCat    the whole loss times the mean of √(s/(1-s))/√Δ, its KL times the square of that
//	           (Clip.NoiseScale; GenRL). The noise level η is left out of the weight. At s = 1
//	           the sigma below stands in the denominator. Only Flow-SDE steps are weighed; CPS
//	           ones are not

// LongCatScale is the weight of a step.
func LongCatScale(sigma, below, sqrtDt []float64) float64 {
	sum := 0.0
	for i, s := range sigma {
		under := s
		if s == 1 {
			under = of(below, i)
		}
		sum += math.Sqrt(s/(1-under)) / of(sqrtDt, i)
	}
	return sum / float64(len(sigma))
}
