package ppocr

import "math"

// Decode is the text of the likeliest classes of all steps, and the mean of their probabilities: a class equal to the
// one before it is dropped, then class 0, the blank. Probabilities and their mean are rounded to five digits.
func Decode(ids []int, probabilities []float32, characters []string) (text string, score float64) {
	sum, n := 0.0, 0
	for i, id := range ids {
		if id == 0 || i > 0 && ids[i-1] == id {
			continue
		}
		if id-1 < len(characters) {
			text += characters[id-1]
		} else {
			text += " "
		}
		sum, n = sum+five(float64(probabilities[i])), n+1
	}
	if n == 0 {
		return "", 0
	}
	return text, five(sum / float64(n))
}

func five(v float64) float64 { return math.RoundToEven(v*1e5) / 1e5 }
