package training

import "math"

// pass is Trainer.Pass: why nothing is learned from an iteration's samples. It is told, and stands
// in the ledger.
func (t *Training) pass(scores, advantages []float64) string {
	switch {
	case t.halt != "":
		return t.halt
	case t.few != "":
		return t.few
	case !some(scores, func(float64) bool { return true }):
		return "no sample has a score"
	case len(t.turn.Trained) == 0 && t.turn.Episode == nil && !t.turn.Noised() && t.turn.Rollout.Buffer == nil:
		return "the window is empty"
	case t.turn.Loss.Objective == "reward-gradient", // which reads no advantages
		t.turn.Episode != nil && t.turn.Advantage.Credit.How != "spread", // whose tokens have their own
		t.turn.Rollout.Buffer != nil,                                     // which may hold groups that tell
		!some(advantages, func(float64) bool { return true }):            // none was compared, and Trainer says why
		return ""
	case some(advantages, func(a float64) bool { return a != 0 }):
		return ""
	}
	const dead = "no group can tell its samples apart: every advantage is 0"
	switch t.turn.Advantage.AllDead {
	case "train":
		return ""
	case "stop":
		t.halt = dead
	default:
		t.Say("warning: iteration %d: %s, so nothing is learned from it", t.loop.Iteration+1, dead)
	}
	return dead
}

// some reports whether a number that is there is such.
func some(x []float64, such func(float64) bool) bool {
	for _, v := range x {
		if !math.IsNaN(v) && such(v) {
			return true
		}
	}
	return false
}
