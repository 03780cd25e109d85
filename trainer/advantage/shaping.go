package advantage

import "math"

// Changes to rewards before they are compared.

// Overlong is DAPO's soft penalty: 0 up to maximum - buffer, then falling by factor over the
// buffer, and at -factor (floor) or falling on beyond the maximum.
func Overlong(length, maximum, buffer int, factor float64, floor bool) float64 {
	over := float64(length - (maximum - buffer))
	if over <= 0 {
		return 0
	}
	if floor && length > maximum {
		return -factor
	}
	return -over / float64(buffer) * factor
}

// StopProperly is what a truncated answer's reward becomes: times coefficient, or, where
// that is negative, the coefficient itself (OpenRLHF).
func StopProperly(reward, coefficient float64, truncated bool) float64 {
	switch {
	case !truncated || math.IsNaN(reward):
		return reward
	case coefficient >= 0:
		return reward * coefficient
	}
	return coefficient
}

// AnswerMask is 1 up to and including the first end token.
func AnswerMask(ids []int, ends map[int]bool) []float64 {
	mask := make([]float64, len(ids))
	for i, id := range ids {
		mask[i] = 1
		if ends[id] {
			break
		}
	}
	return mask
}
