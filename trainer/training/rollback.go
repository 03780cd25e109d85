package training

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/darkroom-rl/darkroom/kernels/rng"
	"github.com/darkroom-rl/darkroom/trainer/folder"
)

// A monitor with then = "rollback" takes the run back to its last regular checkpoint, one that
// checkpoint.every or the start made, or with to = "best" to that of the best evaluation, which is
// regular then, too (best.go): weights, averages, histories, counters. From there
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

// Rollback is how a ledger's line says that what stands between the iteration gone back to and
// itself was abandoned.
type Rollback struct {
	From    int     `json:"from"` // the last iteration that was abandoned
	To      int     `json:"to"`   // and the last that was kept
	Attempt int     `json:"attempt"`
	LRScale float64 `json:"lr_scale"` // from now on
	Why     string  `json:"why"`
}

// rollbackLine is a line of the ledger and of the samples.
type rollbackLine struct {
	Iteration int       `json:"iteration"` // that is gone back to
	Rollback  *Rollback `json:"rollback"`
}

// again is what a rollback does not take back.
type again struct {
	Attempt   int            `json:"attempt,omitempty"`
	LRScale   float64        `json:"lr_scale,omitempty"`  // 0: 1
	Rollbacks map[string]int `json:"rollbacks,omitempty"` // by the monitors' rules
}

// scale is what learning rates are multiplied with.
func (a again) scale() float64 {
	if a.LRScale == 0 {
		return 1
	}
	return a.LRScale
}

// root is the key of everything that is drawn in this attempt.
func (t *Training) root() rng.Key {
	key := rng.New(uint64(t.Run.Seed))
	if t.again.Attempt > 0 {
		key = key.Attempt(t.again.Attempt)
	}
	return key
}

// rollBack goes back. A monitor that has done so too often is returned: it stops the run.
func (t *Training) rollBack(f fired) (*fired, error) {
	next, rule := t.again, f.Rule()
	counts := map[string]int{rule: 1}
	for r, n := range next.Rollbacks {
		counts[r] += n
	}
	if counts[rule] > f.Rollback.Most {
		f.says = fmt.Sprintf("%s, after %d rollbacks", f.says, f.Rollback.Most)
		return &f, t.save()
	}
	next.Attempt, next.LRScale, next.Rollbacks = next.Attempt+1, next.scale()*f.Rollback.LRScale, counts
	to, from := t.target(f.Monitor), t.loop.Iteration
	if err := t.folder.Forget(to); err != nil {
		return nil, err
	}
	c, err := t.folder.At(to)
	if err == nil {
		_, err = t.load(c)
	}
	if err != nil {
		return nil, fmt.Errorf("going back to iteration %d: %w", to, err)
	}
	t.again, t.anchor = next, to
	line := rollbackLine{to, &Rollback{from, to, next.Attempt, next.LRScale, f.says}}
	t.Say("rollback: to iteration %d, attempt %d, learning rate times %.3g", to, next.Attempt+1, next.LRScale)
	return nil, errors.Join(t.ledger.Append(line), t.samples.Append(line), t.save())
}

// ReadLedger reads a ledger's lines: those that count, and those that rollbacks abandoned. A
// folder without a ledger has none.
func ReadLedger(path string) (kept, abandoned []Line, err error) {
	err = folder.ReadLines(path, func(text []byte) error {
		var l Line
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		if l.Rollback == nil {
			kept = append(kept, l)
			return nil
		}
		n := slices.IndexFunc(kept, func(k Line) bool { return k.Iteration > l.Rollback.To })
		if n < 0 {
			n = len(kept)
		}
		abandoned = append(append(abandoned, kept[n:]...), l)
		kept = kept[:n]
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return kept, abandoned, err
}
