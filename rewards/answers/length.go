package answers

import (
	"math"

	"github.com/darkroom-rl/darkroom/portable"
)

// Card: the length of a reply as a reward, along half a cosine (Yeo et al. 2025, VLM-R1's
// cosine_reward): a right answer is worth Short, falling to Long at Limit tokens; a wrong one
// the other way round, so that it is not worth giving up early.
//
//	at(n) = short - (short - long)(1 - cos(πn/Limit))/2
//
// VLM-R1 takes every answer for right. Beyond Limit the cosine goes on, and a reply of twice the
// limit is worth as much as an empty one: Stop keeps it at the end.
// Invariants (tests): both ends; falling between them.
type CosineLength struct {
	Right, Wrong [2]float64 // of the shortest reply, and of one of Limit tokens
	Limit        int
	Stop         bool
}

// VLMR1Length are VLM-R1's numbers.
func VLMR1Length() CosineLength {
	return CosineLength{Right: [2]float64{1, 0.5}, Wrong: [2]float64{-0.5, 0}, Limit: 1024}
}

// At is the reward of a reply of so many tokens.
func (c CosineLength) At(tokens int, right bool) float64 {
	ends := c.Wrong
	if right {
		ends = c.Right
	}
	if c.Stop {
		tokens = min(tokens, c.Limit)
	}
	return ends[0] - (ends[0]-ends[1])*(1-portable.Cos(float64(tokens)*math.Pi/float64(max(1, c.Limit))))/2
}
