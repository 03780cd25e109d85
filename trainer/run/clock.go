package run

import "github.com/darkroom-rl/darkroom/trainer/ledger"

// A run may be given seconds in place of iterations: so methods are compared after equal times.
// Evaluations do not count. It ends after the iteration in which its time is up, as after the last
// one of its file: with an evaluation, and a checkpoint.

// clock is how much of its time a run has used.
type clock struct {
	spent float64 // seconds of all iterations, without evaluations
	over  bool    // whether that is all there is
}

// outOfTime is a result's reason.
const outOfTime = "its time was up"

// last reports whether an iteration, counted from 1, is the run's last one.
func (t *training) last(iteration int) bool { return t.clock.over || iteration == t.Run.Iterations }

// spend adds an iteration's seconds.
func (t *training) spend(seconds float64) {
	t.clock.spent += seconds
	t.clock.over = t.Seconds > 0 && t.clock.spent >= t.Seconds
}

// spentBefore are the seconds of the iterations that a checkpoint has, and of those that rollbacks abandoned before it.
func (t *training) spentBefore() (err error) {
	t.clock.spent, err = ledger.Spent(t.files.folder.Path("timing.jsonl"), t.loop.Iteration, t.state.Attempt)
	t.spend(0)
	return err
}
