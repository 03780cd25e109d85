package fleet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Card: a result is a function of its job, so whoever does the job again has the same bits, or one of the two
// computes wrongly. Of the jobs that others did, a share is done here again. Which ones depends on a number that
// workers do not know. A worker whose bits differ is named and dismissed: what it has done of open jobs is dropped
// and done again, and nothing more of it counts, in this role or another.
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

// correct puts the trainer's result in the place of a worker's that has other bits, and dismisses the worker.
func (f *Fleet) correct(ctx context.Context, b *Batch, j *job, payload []byte) error {
	again, err := f.expelled(j.entry.Worker, fmt.Sprintf("job %s has other bits from it than from the trainer", j.Job))
	if err != nil {
		return err
	}
	digest := HashOf(payload)
	f.sched.Result(f.Clock(), j.name, Here, digest)
	b.mine(j, payload)
	again = slices.DeleteFunc(again, func(h Hash) bool { return h == j.name })
	return errors.Join(f.offer(again), f.judge(j, digest), f.finished(ctx, j))
}

// Differs dismisses a worker whose result of a job, of which nobody waits any more, has other bits than the trainer's.
func (f *Fleet) Differs(by string, j Job) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dismiss(by, fmt.Sprintf("job %s has other bits from it than from the trainer", j))
}

// dismiss lets nothing of a worker count any more.
func (f *Fleet) dismiss(by, why string) error {
	if f.refused[by] != "" {
		return nil
	}
	again, err := f.expelled(by, why)
	return errors.Join(err, f.offer(again))
}

// expelled is expel, of a worker that is told so.
func (f *Fleet) expelled(by, why string) (again []Hash, err error) {
	f.told("warning: fleet: worker %s is dismissed: %s; what it did of this roll is done again\nhint: its machine computes wrongly (memory, overclocking), or runs another program; fleet.jsonl says which jobs were its", by, why)
	f.logged(Entry{Worker: by, Dismissed: why})
	if err := f.Hub.Dismiss(context.Background(), by); err != nil {
		return nil, err
	}
	return f.expel(context.Background(), by, why)
}

// elsewhere hears that a worker was dismissed in another role.
func (f *Fleet) elsewhere(ctx context.Context, e Event) error {
	if f.refused[e.Worker] != "" {
		return nil
	}
	if f.sched.Knows(e.Worker) { // otherwise the name is of another role
		f.told("fleet: worker %s is dismissed: %s; what it did of open jobs is done again", e.Worker, e.Why)
		f.logged(Entry{Worker: e.Worker, Dismissed: e.Why})
	}
	again, err := f.expel(ctx, e.Worker, e.Why)
	if err != nil {
		return err
	}
	return f.offer(again)
}

// expel drops what a worker has done of open jobs, and takes nothing more of it. The jobs to offer again are returned.
func (f *Fleet) expel(ctx context.Context, by, why string) (again []Hash, err error) {
	f.refused[by] = why
	delete(f.about, by)
	order := f.names()
	again = f.sched.Refuse(f.Clock(), by, order)
	for _, name := range order {
		if o := f.jobs[name]; o.payload != nil && o.entry.Worker == by {
			o.reopened()
			if err := f.Hub.Forget(ctx, name); err != nil { // so that another's can be kept
				return nil, err
			}
		}
	}
	return again, nil
}

// logged writes an entry down, where somebody reads it.
func (f *Fleet) logged(e Entry) {
	if f.Log != nil {
		f.Log(e)
	}
}
