package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// What the trainer does itself while it waits for a batch, one thing after another, since it has one model: jobs
// that others could not do, jobs that are compared, and, where it works as the others do, whatever waits.

// poll is how long the trainer waits before it looks again for a job to do itself.
const poll = 50 * time.Millisecond

// own is the trainer's part of a batch.
type own struct {
	now    *job // nil: nothing is under way
	audits bool // what is under way is compared, and its job has a result
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

// end waits for what is under way, and wants nothing of it.
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

// ownResult takes what the trainer has done.
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
