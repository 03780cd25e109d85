package run

import (
	"errors"
	"fmt"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// A monitor with then = "rollback" takes the run back to its last regular checkpoint, one that
// checkpoint.every or the start made, or with to = "best" to that of the best evaluation, which is
// regular then, too (monitors.go): weights, averages, histories, counters. From there
//
//	draws          are others: the keys of everything that is drawn get the attempt as a coordinate
//	learning rate  is multiplied with rollback.lr_scale, once more each time
//	most           rollbacks of one rule are made; the next one stops the run
//
// so that it neither repeats itself nor goes on for ever. Lines that were written since stay where
// they are: a line "rollback" after them, in the ledger and among the samples, says that they were
// abandoned. Then the checkpoint is written anew with the attempt, and those after it are deleted.
//
// Invariant (test): a run that is stopped at any moment around a rollback goes on with the same
// bytes: until the checkpoint stands anew, the older one leads to the same rollback.

// rollbackLine is a line of the ledger and of the samples.
type rollbackLine struct {
	Iteration int              `json:"iteration"` // that is gone back to
	Rollback  *ledger.Rollback `json:"rollback"`
}

// rollBack goes back. A monitor that has done so too often is returned: it stops the run.
func (l *loop) rollBack(f fired) (*fired, error) {
	next, rule := l.attempt, f.Rule()
	counts := map[string]int{rule: 1}
	for r, n := range next.Rollbacks {
		counts[r] += n
	}
	if counts[rule] > f.Rollback.Most {
		f.says = fmt.Sprintf("%s, after %d rollbacks", f.says, f.Rollback.Most)
		return l.stop(&f)
	}
	next.Attempt, next.LRScale, next.Rollbacks = next.Attempt+1, next.scale()*f.Rollback.LRScale, counts
	to, from := l.monitors.target(f.Monitor, l.checkpoints.regular), l.trainer.Iteration
	if err := l.folder.Forget(to); err != nil {
		return nil, err
	}
	c, err := l.folder.At(to)
	before := l.evaluation.measures
	if err == nil {
		_, err = l.load(c)
	}
	if err != nil {
		return nil, fmt.Errorf("going back to iteration %d: %w", to, err)
	}
	if l.evaluation.carry(before) {
		l.monitors.forgetHeldOut()
		l.monitors.compareStart(l.evaluation.Before)
	}
	l.attempt, l.checkpoints.regular = next, to
	line := rollbackLine{to, &ledger.Rollback{From: from, To: to, Attempt: next.Attempt, LRScale: next.LRScale, Why: f.says}}
	l.Say("rollback: to iteration %d, attempt %d, learning rate times %.3g", to, next.Attempt+1, next.LRScale)
	return nil, errors.Join(l.record.ledger.Append(line), l.record.samples.Append(line), l.save())
}

// better reports whether the iteration's evaluation is the best so far of a monitor that may go back to it.
func (l *loop) better() bool {
	return l.evaluation.Measured == l.trainer.Iteration && l.monitors.better(l.trainer.Iteration, l.evaluation.Latest)
}
