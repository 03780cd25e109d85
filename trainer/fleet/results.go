package fleet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Card: results on their way. A worker says that it has done a job, and how many bytes the result has; these are
// fetched beside the loop, which goes on hearing the others. Its message is believed only as far as its job allows:
//
//	size     at most Work.Most of the job
//	time     the time of such a blob on a slow wire (Blob.Limit)
//	at once  one of each worker
//
// A result that does not come is as if its worker had fallen silent. One that cannot be the job's is of no use, and
// its worker is named. Where results follow from their jobs, the trainer does the job, and nothing of the worker
// counts until then: other bytes dismiss it, as an audit does; the same bytes clear it. Of results that nobody can
// compare, the third of no use dismisses.
//
// Invariants (tests): whatever a worker's messages about its results, the others' events are taken, an interrupt is
// obeyed, and the bytes of the run are those of one without it.

// An arrival is a result on its way.
type arrival struct {
	Event
	kept bool
	stop context.CancelFunc // nil: its worker brings another one
	// doubtful: it is compared with the result of the trainer (Work.Doubts).
	doubtful bool
}

// mostUseless is how many results of no use a worker may bring that nobody can compare.
const mostUseless = 3

// done takes the event that a worker has done a job, or had done it for a trainer that has ended.
func (f *Fleet) done(e Event, kept bool) error {
	j := f.jobs[e.Job]
	if j == nil || j.payload != nil || f.refused[e.Worker] != "" || f.suspects[e.Worker] != nil {
		return f.result(&arrival{Event: e, kept: kept}, nil)
	}
	for _, a := range f.coming[e.Worker] {
		if a.Job == e.Job {
			return nil // said twice
		}
	}
	f.sched.Coming(f.Clock(), e.Job, e.Worker)
	f.coming[e.Worker] = append(f.coming[e.Worker], &arrival{Event: e, kept: kept})
	if len(f.coming[e.Worker]) == 1 {
		f.fetch(f.coming[e.Worker][0])
	}
	return nil
}

// fetch fetches and reads a result that is waited for, beside the loop.
func (f *Fleet) fetch(a *arrival) {
	j := f.jobs[a.Job]
	if j == nil {
		go f.arrived(a, nil, context.Canceled)
		return
	}
	check, doubts, most := j.of[0].Check, j.of[0].Doubts, int64(mostResult)
	if j.of[0].Most != nil {
		most = j.of[0].Most(j.Job)
	}
	size := Blob{a.Payload, int64(a.Bytes)}
	ctx, stop := context.WithTimeout(context.Background(), size.Limit())
	a.stop = stop
	go func() {
		defer stop()
		if a.Bytes <= 0 || size.Size > most {
			f.arrived(a, nil, fmt.Errorf("%w: it is said to have %d bytes, and a result of this job has between 1 and %d", errUseless, a.Bytes, most))
			return
		}
		payload, err := f.Hub.Get(ctx, size)
		switch {
		case err == nil:
			if err = check(j.Job, payload); err != nil {
				err = fmt.Errorf("%w: %w", errUseless, err)
			} else if doubts != nil {
				a.doubtful = doubts(j.Job, payload)
			}
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			err = fmt.Errorf("it did not come within %.0f s", size.Limit().Seconds())
		}
		f.arrived(a, payload, err)
	}()
}

// mostResult bounds results of jobs that say nothing of theirs, in bytes.
const mostResult = 1 << 33

// errUseless reports bytes that cannot be a job's result.
var errUseless = errors.New("it cannot be the job's")

// arrived takes a result that came, or why it did not, and fetches its worker's next one.
func (f *Fleet) arrived(a *arrival, payload []byte, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rest := f.coming[a.Worker][1:]
	if f.coming[a.Worker] = rest; len(rest) == 0 {
		delete(f.coming, a.Worker)
	} else {
		f.fetch(rest[0])
	}
	j := f.jobs[a.Job]
	switch {
	case err == nil || j == nil || j.payload != nil || f.refused[a.Worker] != "" || f.suspects[a.Worker] != nil:
		err = f.result(a, payload)
	default:
		err = f.useless(a, j, err)
	}
	f.fails(err)
	f.rouse()
}

// result takes a worker's result, which was read.
func (f *Fleet) result(a *arrival, payload []byte) error {
	ctx, e := context.Background(), a.Event
	j := f.jobs[e.Job]
	switch f.sched.Result(f.Clock(), e.Job, e.Worker, e.Payload) {
	case Unwanted: // nobody will take it
		return f.Hub.Forget(ctx, e.Job)
	case Repeated:
		return nil
	case Differs:
		if j.impure() {
			return nil
		}
		f.told("warning: fleet: job %s has other bytes from worker %s than from %s: it is done here, too", j.Job, e.Worker, f.sched.Of(e.Job))
		j.compare()
		return nil
	}
	j.payload, j.entry = payload, Entry{Job: e.Job, Of: j.Job.String(), Worker: e.Worker, Seconds: e.Seconds, Bytes: len(payload),
		Tries: f.sched.Begins(e.Job), Payload: e.Payload, Kept: a.kept}
	j.course.done(e.Worker)
	if len(j.accused) > 0 || f.audited(j) || a.doubtful {
		j.compare()
	}
	return f.finished(ctx, j)
}

// useless takes the failure of a result that did not come, or cannot be its job's.
func (f *Fleet) useless(a *arrival, j *job, why error) error {
	j.course.failed(a.Worker, why.Error())
	f.told("warning: fleet: the result of job %s from worker %s is of no use, and it is done again: %v", j.Job, a.Worker, why)
	if err := f.Hub.Forget(context.Background(), a.Job); err != nil { // so that another's can be kept
		return err
	}
	again := f.sched.Gone(f.Clock(), a.Job, a.Worker)
	switch {
	case a.kept: // its writer is unknown
		if f.sched.Waits(a.Job) { // it was not offered yet
			again = []Hash{a.Job}
		}
	case !errors.Is(why, errUseless):
	case j.impure():
		if f.faults[a.Worker]++; f.faults[a.Worker] >= mostUseless {
			return errors.Join(f.offer(again), f.dismiss(a.Worker, fmt.Sprintf("%d results of it were of no use, the last one of job %s", mostUseless, j.Job)))
		}
	default:
		return errors.Join(f.offer(again), f.accuse(a, j))
	}
	return f.offer(again)
}

// accuse has a job done here, since a worker's result of it is of no use. Nothing of the worker counts until then.
func (f *Fleet) accuse(a *arrival, j *job) error {
	f.suspects[a.Worker] = j
	j.accused = append(j.accused, claim{a.Worker, a.Payload})
	f.sched.Leave(j.name)
	return f.offer(f.sched.Suspect(f.Clock(), a.Worker))
}

// A claim is a worker's result.
type claim struct {
	worker string
	digest Hash
}

// judge compares workers' results for a job with the trainer's.
func (f *Fleet) judge(j *job, digest Hash) error {
	all := j.accused
	j.accused = nil
	for _, c := range all {
		delete(f.suspects, c.worker)
		if c.digest == digest {
			f.told("fleet: worker %s was right about job %s", c.worker, j.Job)
			f.sched.Trust(c.worker)
			continue
		}
		if err := f.dismiss(c.worker, fmt.Sprintf("job %s has other bits from it than from the trainer", j.Job)); err != nil {
			return err
		}
	}
	return nil
}

// drops stops the transfers of a job that nobody waits for, and clears workers that were to be compared.
func (f *Fleet) drops(j *job) {
	for _, all := range f.coming {
		if a := all[0]; a.Job == j.name && a.stop != nil {
			a.stop()
		}
	}
	for _, c := range j.accused {
		delete(f.suspects, c.worker)
		f.sched.Trust(c.worker)
	}
	j.accused = nil
}

// Card: a result is a function of its job, so that two results with different bits mean that one of them is wrong. Of
// the jobs that others did, a share is done here again. Which ones depends on a number that workers do not know. A
// worker whose bits differ is named and dismissed: its results for open jobs are dropped and done again, and nothing
// more of it counts, in this role or another.
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

// expelled is expel, and tells the worker.
func (f *Fleet) expelled(by, why string) (again []Hash, err error) {
	f.told("warning: fleet: worker %s is dismissed: %s; what it did of this roll is done again\nhint: its machine computes wrongly (memory, overclocking), or runs another program; fleet.jsonl says which jobs were its", by, why)
	f.logged(Entry{Worker: by, Dismissed: why})
	if err := f.Hub.Dismiss(context.Background(), by); err != nil {
		return nil, err
	}
	return f.expel(context.Background(), by, why)
}

// elsewhere takes the event that a worker was dismissed in another role.
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

// expel drops a worker's results for open jobs, and takes nothing more of it. The jobs to offer again are returned.
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
