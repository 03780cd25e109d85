package loss

import "math"

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
