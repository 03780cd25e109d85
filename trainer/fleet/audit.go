package fleet

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
)

// Card: a result is a function of its job, so whoever does the job again has the same bits, or one of the two
// computes wrongly. Of the jobs that others did, a share is done here again. Which ones depends on a number that
// workers do not know. A worker whose bits differ is named and dismissed: what it has done of these jobs is dropped
// and done again, and nothing more of it counts.
//
// This finds broken memory and other libraries as well as ill will. It says nothing of jobs of earlier rolls, which
// were learned from: the message names the worker, and fleet.jsonl which jobs were its.
//
// Episodes that ask programs or servers may differ from one time to the next. The first result is the job's, and none
// is done again.
//
// Invariant (test): with a worker that returns other bits, a run whose jobs are all compared leaves the bytes of
// one that nobody helped, and its worker is named.

// audited says whether a job is one of those that are done again.
func (f *Fleet) audited(j *job) bool {
	if j.entry.Worker == Here || f.Audit <= 0 || j.impure() {
		return false
	}
	h := HashOf(slices.Concat(f.Salt[:], j.name[:]))
	return float64(binary.LittleEndian.Uint64(h[:])>>11)/(1<<53) < f.Audit
}

// dismiss lets nothing of a worker count whose result has other bits than the trainer's.
func (f *Fleet) dismiss(ctx context.Context, b *Batch, j *job, payload []byte) error {
	by, now := j.entry.Worker, f.Clock()
	why := fmt.Sprintf("job %s has other bits from it than from the trainer", j.Job)
	f.told("warning: fleet: worker %s is dismissed: %s; what it did of this roll is done again\nhint: its machine computes wrongly (memory, overclocking), or runs another program; fleet.jsonl says which jobs were its", by, why)
	f.refused[by] = why
	if f.Log != nil {
		f.Log(Entry{Worker: by, Dismissed: why})
	}
	delete(f.about, by)
	if err := f.Hub.Dismiss(ctx, by); err != nil {
		return err
	}
	order := f.names()
	again := f.sched.Refuse(now, by, order)
	for _, name := range order {
		if o := f.jobs[name]; o.payload != nil && o.entry.Worker == by {
			o.reopened()
			if err := f.Hub.Forget(ctx, name); err != nil { // so that another's can be kept
				return err
			}
		}
	}
	f.sched.Result(now, j.name, Here, HashOf(payload))
	b.mine(j, payload)
	again = slices.DeleteFunc(again, func(h Hash) bool { return h == j.name })
	if err := f.offer(again); err != nil {
		return err
	}
	return f.finished(ctx, j)
}
