package run

import (
	"math"

	"github.com/darkroom-rl/darkroom/trainer"
)

// skips is Trainer.Pass: why nothing is learned from an iteration's samples. The reason is said, and the
// ledger holds it.
func (t *training) skips(scores, advantages []float64) string {
	switch {
	case t.now.last != "":
		return t.now.last
	case t.now.unscored != "":
		return t.now.unscored
	case !some(scores, func(float64) bool { return true }):
		return "no sample has a score"
	case t.now.turn.Silent() && t.now.turn.Rollout.Buffer == nil:
		return "the window is empty"
	case !t.now.turn.BySample(), // advantages of samples are not what is learned from
		t.now.turn.Rollout.Buffer != nil,                      // which may hold groups that tell
		!some(advantages, func(float64) bool { return true }): // none was compared, and Trainer says why
		return ""
	case some(advantages, func(a float64) bool { return a != 0 }):
		return ""
	}
	const dead = "no group can tell its samples apart: every advantage is 0"
	switch t.now.turn.Advantage.AllDead {
	case "train":
		return ""
	case "stop":
		t.now.last = dead
	default:
		t.Say("warning: iteration %d: %s, so no sample is learned from", t.loop.Iteration+1, dead)
	}
	return dead
}

// alone reports whether written answers are learned from where no sample is (loss.imitate).
func (t *training) alone() bool { return t.now.last == "" && t.now.turn.Imitates() }

// some reports whether a number that is there is such.
func some(x []float64, such func(float64) bool) bool {
	for _, v := range x {
		if !math.IsNaN(v) && such(v) {
			return true
		}
	}
	return false
}

// mostSkips is how many iterations in a row may make no update, since numbers are not finite, before the run gives up.
const mostSkips = 5

// countSkips says and counts which updates were skipped, since their numbers are infinite or none.
func (t *training) countSkips(r *trainer.Report) {
	if t.now.odd = r.Odd; r.Skipped == 0 || len(r.Updates) > 0 {
		t.state.Skips = 0
	} else {
		t.state.Skips++
	}
	if r.Skipped > 0 {
		t.Say("warning: iteration %d: %d of its updates skipped, the weights stay as they are (%d of at most %d such iterations in a row): %v",
			t.loop.Iteration, r.Skipped, t.state.Skips, mostSkips, r.Odd)
	}
}
