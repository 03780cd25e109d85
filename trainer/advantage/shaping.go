package advantage

import "math"

// Changes to rewards before they are compared.

// Overlong is DAPO's soft penalty for answers that come near the limit (Yu et al., 2025): 0 up
// to Limit - Buffer tokens, then falling to -Factor at Limit. Beyond, DAPO's paper, TRL, EasyR1
// and OpenRLHF stay there (Floor); verl and AReaL let it fall on.
//
// Invariants (tests): it never rises with length, and has no jump.
type Overlong struct {
	Limit  int     `toml:"limit" range:"[1,inf)" doc:"tokens an answer may have"`
	Buffer int     `toml:"buffer" range:"[1,inf)" doc:"tokens before the limit in which the penalty grows"`
	Factor float64 `toml:"factor" range:"[0,inf)" doc:"the penalty at the limit"`
	Floor  bool    `toml:"floor" doc:"the penalty grows no further beyond the limit"`
}

// SetDefaults is DAPO's.
func (o *Overlong) SetDefaults() { *o = Overlong{Limit: 20480, Buffer: 4096, Factor: 1, Floor: true} }

// Check reports a buffer that begins before the answer.
func (o Overlong) Check(report func(key, problem, hint string)) {
	if o.Buffer > o.Limit {
		report("buffer", "the buffer is longer than an answer may be, so every answer is punished", "DAPO's is a fifth of the limit")
	}
}

// Penalty is added to the reward of an answer of length tokens.
func (o Overlong) Penalty(length int) float64 {
	over := length - (o.Limit - o.Buffer)
	switch {
	case over <= 0:
		return 0
	case o.Floor && over >= o.Buffer:
		return -o.Factor
	}
	return -float64(over) / float64(o.Buffer) * o.Factor
}

// StopProperly is a truncated answer's reward: times coefficient (so that a negative reward shrinks too), or, where
// that is negative, the coefficient itself (ProRL, OpenRLHF).
func StopProperly(reward, coefficient float64, truncated bool) float64 {
	switch {
	case !truncated || math.IsNaN(reward):
		return reward
	case coefficient >= 0:
		return reward * coefficient
	}
	return coefficient
}
