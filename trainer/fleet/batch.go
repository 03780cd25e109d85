package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Doing is how the trainer does a job itself. ctx ends when somebody else was quicker.
type Doing func(ctx context.Context, j Job) (payload []byte, err error)

// Work is jobs that belong together.
type Work struct {
	Jobs     []Job
	Here     Doing
	Check    func(j Job, payload []byte) error // whether a result can be a job's; of several at once
	Most     func(j Job) int64                 // bytes of a job's result; nil: nobody says
	Progress func(done int)                    // is called with how many jobs are done; nil: it is not
	// Each is called with the result of job i, by who waits for the batch and while the trainer does nothing itself;
	// once more where another result took its place. nil: it is not.
	Each func(i int, payload []byte) error
	// Impure says that a result does not follow from its job's name alone: who does it asks programs or servers. Then
	// the first result is the job's, and none is compared.
	Impure bool
	Urgent bool // it comes before jobs that were offered and that no worker has begun
	// Doubts reports whether a worker's result is compared with the trainer's before it counts; of several at once. nil:
	// audits decide.
	Doubts func(j Job, payload []byte) bool
}

// A Batch is work under way.
type Batch struct {
	Work
	f       *Fleet
	jobs    []*job
	left    int           // jobs without a result
	done    int           // jobs with one
	heard   int           // of them, those that Told was called for
	changed chan struct{} // something has happened
	own     *own          // nil: nobody waits for the batch
	passed  map[int]Hash  // results that Each was called with
	moved   time.Duration // when a job was done last, or it was said that none is
}

// Begin takes jobs on: those whose results are kept are done, the others are offered. Drop must follow.
func (f *Fleet) Begin(ctx context.Context, w Work) (*Batch, error) {
	b := &Batch{Work: w, f: f, changed: make(chan struct{}, 1), passed: map[int]Hash{}}
	f.mu.Lock()
	f.start()
	f.open = append(f.open, b)
	added := b.add(f.Clock())
	f.mu.Unlock()
	for _, j := range added {
		if err := f.offerFirst(ctx, j, w.Urgent); err != nil {
			b.Drop()
			return nil, err
		}
	}
	f.rouse()
	return b, nil
}

// add lists the batch's jobs, and returns those that no open batch had.
func (b *Batch) add(now time.Duration) (added []*job) {
	for _, one := range b.Jobs {
		name := one.Name()
		j := b.f.jobs[name]
		if j == nil {
			j = &job{Job: one, name: name}
			b.f.jobs[name] = j
			b.f.sched.Add(now, name, one.kind())
			added = append(added, j)
		}
		b.jobs = append(b.jobs, j)
		if slices.Contains(j.of, b) {
			continue
		}
		if j.of = append(j.of, b); j.payload == nil {
			b.left++
		} else {
			b.done++
		}
	}
	return added
}

// offerFirst takes the kept result of a job, or offers it. It does not hold mu while it asks the hub.
func (f *Fleet) offerFirst(ctx context.Context, j *job, urgent bool) error {
	kept, err := f.Hub.Kept(ctx, j.name)
	if err != nil {
		return fmt.Errorf("fleet: asking for what was kept of job %s: %w", j.Job, err)
	}
	if kept != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.done(*kept, true) // and offered where it is of no use
	}
	f.mu.Lock()
	done := j.payload != nil || f.jobs[j.name] != j
	f.mu.Unlock()
	if done {
		return nil
	}
	began := time.Now()
	if err := f.Hub.Offer(ctx, j.name, j.Job, urgent); err != nil {
		return fmt.Errorf("fleet: offering job %s: %w", j.Job, err)
	}
	f.mu.Lock()
	j.course.published(began)
	f.mu.Unlock()
	return nil
}

// notify lets who waits for the batch look again.
func (b *Batch) notify() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// Wait waits until all is done and compared, and returns the results in the order of the jobs. The trainer works
// meanwhile, where it is to.
func (b *Batch) Wait(ctx context.Context) ([][]byte, error) {
	b.f.mu.Lock()
	b.own = newOwn()
	b.f.mu.Unlock()
	defer b.rest()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if err := b.pass(); err != nil {
			return nil, err
		}
		payloads, wait, err := b.look(ctx)
		if payloads != nil {
			err = b.pass()
		}
		b.f.Flush()
		b.tell()
		if payloads != nil || err != nil {
			return payloads, err
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case r := <-b.own.ended:
			if err := b.ownResult(ctx, r); err != nil {
				return nil, err
			}
		case <-b.changed:
		case <-timer.C:
		}
	}
}

// look does the trainer's work, and returns the results where all is done. wait is the time without work if no event
// comes.
func (b *Batch) look(ctx context.Context) (payloads [][]byte, wait time.Duration, err error) {
	f := b.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return nil, 0, f.broken
	}
	now := f.Clock()
	if j := b.own.now; j != nil && !b.own.audits {
		f.sched.Beat(now, j.name, Here)
	}
	if err := b.work(ctx, now); err != nil {
		return nil, 0, err
	}
	if b.own.now == nil && b.left > 0 && (f.Local || f.forsaken(now)) {
		f.sched.Hello(now, Here) // it is free, and would do jobs that take others long
		f.sched.Elsewhere = !b.waits()
	}
	b.waiting(now)
	if b.left == 0 && b.own.now == nil && b.first((*job).unsure) == nil {
		payloads = make([][]byte, len(b.jobs))
		for i, j := range b.jobs {
			payloads[i] = j.payload
		}
		return payloads, 0, nil
	}
	wait = f.Rules.Beats()
	if b.own.now == nil && b.waits() {
		wait = min(wait, poll)
	}
	return nil, wait, nil
}

// mute is how long nothing is said of a batch of which no job is done.
const mute = time.Minute

// waiting logs now and then that a batch waits, and its missing jobs.
func (b *Batch) waiting(now time.Duration) {
	if b.done != b.heard || b.moved == 0 {
		b.moved = now
	}
	if now-b.moved < mute || b.left == 0 {
		return
	}
	b.moved = now
	j := b.first(func(j *job) bool { return j.payload == nil })
	by := "nobody is at it"
	if at := b.f.sched.At(j.name); len(at) > 0 {
		by = strings.Join(at, ", ") + " at it"
	}
	b.f.told("fleet: waiting: %d of %d jobs are done; the first of the others is %s, %s", b.done, b.done+b.left, j.Job, by)
}

// pass passes on results that are new.
func (b *Batch) pass() error {
	if b.Each == nil || b.own.now != nil {
		return nil
	}
	fresh := map[int][]byte{}
	b.f.mu.Lock()
	for i, j := range b.jobs {
		if j.payload != nil && b.passed[i] != j.entry.Payload {
			fresh[i] = j.payload
			b.passed[i] = j.entry.Payload
		}
	}
	b.f.mu.Unlock()
	for _, i := range slices.Sorted(maps.Keys(fresh)) {
		if err := b.Each(i, fresh[i]); err != nil {
			return err
		}
	}
	return nil
}

// tell says how much is done.
func (b *Batch) tell() {
	b.f.mu.Lock()
	done := b.done
	b.f.mu.Unlock()
	if done != b.heard && b.Progress != nil {
		b.Progress(done)
	}
	b.heard = done
}

// rest ends the trainer's own work.
func (b *Batch) rest() {
	b.own.end()
	b.f.mu.Lock()
	b.own = nil
	b.f.mu.Unlock()
	b.f.Flush()
}

// Drop lets go of a batch, whether it is done or not.
func (b *Batch) Drop() {
	b.f.mu.Lock()
	defer b.f.mu.Unlock()
	b.drop()
}

func (b *Batch) drop() {
	f := b.f
	if !f.closed(b) {
		return
	}
	for _, j := range b.jobs {
		if j.of = slices.DeleteFunc(j.of, func(o *Batch) bool { return o == b }); len(j.of) > 0 || f.jobs[j.name] != j {
			continue
		}
		delete(f.jobs, j.name)
		f.drops(j)
		if j.payload == nil {
			_ = f.Hub.Withdraw(context.Background(), j.name) // a job without a waiter does no harm
		} else if f.Log != nil {
			j.entry.Course, j.entry.Iteration = j.course, j.How.Iteration
			f.Log(j.entry)
		}
		f.sched.Remove(j.name)
	}
	f.prune()
	f.rouse()
}

// The trainer's own work while it waits for a batch, one thing after another, since it has one model: jobs that
// others could not do, jobs that are compared, and, where it works as the others do, whatever waits.

// poll is how long the trainer waits before it looks again for a job to do itself.
const poll = 50 * time.Millisecond

// own is the trainer's part of a batch.
type own struct {
	now    *job // nil: nothing is under way
	audits bool // the job under way is compared, and has a result
	stop   context.CancelFunc
	began  time.Time
	ended  chan ownEnd
}

// ownEnd is how something ended.
type ownEnd struct {
	payload []byte
	err     error
	stopped bool // since somebody else was quicker
}

func newOwn() *own { return &own{ended: make(chan ownEnd, 1)} }

// unless stops the work on a job that somebody else has done.
func (o *own) unless(name Hash) {
	if o != nil && o.now != nil && o.now.name == name && !o.audits {
		o.stop()
	}
}

// end waits for the job under way, and drops its result.
func (o *own) end() {
	if o.now != nil {
		o.stop()
		<-o.ended
		o.now = nil
	}
}

// work begins the next thing, if the trainer is free.
func (b *Batch) work(ctx context.Context, now time.Duration) error {
	f := b.f
	if b.own.now != nil {
		return nil
	}
	if j := b.first(func(j *job) bool { return j.must && j.payload == nil }); j != nil {
		f.told("warning: fleet: job %s %s: it is done here", j.Job, f.whyHere(j))
		b.start(ctx, now, j, false)
		return nil
	}
	if j := b.first((*job).unsure); j != nil {
		j.check = false
		b.start(ctx, now, j, true)
		return nil
	}
	for (f.Local || f.forsaken(now)) && b.waits() {
		taken, err := f.Hub.Take(ctx)
		if err != nil {
			return fmt.Errorf("fleet: looking for a job to do here: %w", err)
		}
		if taken == nil {
			return nil
		}
		j := f.jobs[taken.Name()]
		if j == nil {
			continue // of a batch that is over
		}
		if useful, _ := f.sched.Begun(now, j.name, Here); !useful {
			continue
		}
		if !slices.Contains(j.of, b) { // of a later batch: it is for others
			return f.offer(f.sched.Failed(now, j.name, Here))
		}
		b.start(ctx, now, j, false)
		return nil
	}
	return nil
}

// whyHere is why a job is left to the trainer.
func (f *Fleet) whyHere(j *job) string {
	switch n := f.sched.Begins(j.name); {
	case len(j.accused) > 0:
		return fmt.Sprintf("has a result of no use from worker %s", j.accused[0].worker)
	case n >= f.Rules.Tries:
		return fmt.Sprintf("was begun %d times and not done by others", n)
	}
	return "is under way for too long"
}

// waits reports whether a job of the batch waits for somebody.
func (b *Batch) waits() bool {
	return b.left > 0 && slices.ContainsFunc(b.jobs, func(j *job) bool { return b.f.sched.Waits(j.name) })
}

// start does a job.
func (b *Batch) start(ctx context.Context, now time.Duration, j *job, audits bool) {
	if !audits {
		b.f.sched.Begun(now, j.name, Here)
		j.course.leased(Here)
	}
	at, stop := context.WithCancel(ctx)
	b.own.now, b.own.audits, b.own.stop, b.own.began = j, audits, stop, time.Now()
	ended := b.own.ended
	go func() {
		var r ownEnd
		r.payload, r.err = b.Here(at, j.Job)
		r.stopped = at.Err() != nil
		stop()
		ended <- r
	}()
}

// ownResult takes a result of the trainer.
func (b *Batch) ownResult(ctx context.Context, r ownEnd) error {
	f := b.f
	f.mu.Lock()
	defer f.mu.Unlock()
	j, audits := b.own.now, b.own.audits
	b.own.now = nil
	if r.err != nil {
		if r.stopped && ctx.Err() == nil {
			return nil // somebody else was quicker
		}
		return r.err
	}
	digest := HashOf(r.payload)
	if audits {
		if j.payload == nil { // its worker was dismissed meanwhile
			return nil
		}
		if digest == j.entry.Payload {
			j.entry.Audited = true
			return f.judge(j, digest)
		}
		return f.correct(ctx, b, j, r.payload)
	}
	switch f.sched.Result(f.Clock(), j.name, Here, digest) {
	case First:
		b.mine(j, r.payload)
		return errors.Join(f.judge(j, digest), f.finished(ctx, j))
	case Differs:
		if !j.impure() {
			return f.correct(ctx, b, j, r.payload)
		}
	}
	return nil
}

// mine makes a result of the trainer's own the one that counts.
func (b *Batch) mine(j *job, payload []byte) {
	j.payload = payload
	j.course.done(Here)
	j.entry = Entry{Job: j.name, Of: j.Job.String(), Worker: Here, Seconds: time.Since(b.own.began).Seconds(), Bytes: len(payload),
		Tries: b.f.sched.Begins(j.name), Payload: HashOf(payload)}
}

// compare has a job done here as well, once.
func (j *job) compare() {
	for _, b := range j.of {
		if b.own != nil && b.own.now == j && b.own.audits {
			return
		}
		b.notify()
	}
	j.check = true
}

// unsure reports whether a job is to be compared.
func (j *job) unsure() bool { return j.check && j.payload != nil && j.entry.Worker != Here }

// first is the batch's first job that is so; nil: none is.
func (b *Batch) first(is func(*job) bool) *job {
	if i := slices.IndexFunc(b.jobs, is); i >= 0 {
		return b.jobs[i]
	}
	return nil
}
