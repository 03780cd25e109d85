package fleet

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// What the trainer does itself, one thing after another, since it has one model: jobs that others could not do,
// jobs that are compared, and, where it works as the others do, whatever waits.

// own is the trainer's part of a Do.
type own struct {
	now    *job // nil: nothing is under way
	audits bool // what is under way is compared, and its job has a result
	stop   context.CancelFunc
	began  time.Time
	ended  chan ownEnd
	must   []Hash // jobs that are left to the trainer
	check  []*job // jobs that are to be compared
}

// ownEnd is how something ended.
type ownEnd struct {
	payload []byte
	err     error
	stopped bool // since somebody else was quicker
}

func newOwn() *own { return &own{ended: make(chan ownEnd, 1)} }

// atWork reports whether the trainer has something to do, or does it.
func (o *own) atWork() bool { return o.now != nil || len(o.check) > 0 }

// unless stops the work on a job that somebody else has done.
func (o *own) unless(name Hash) {
	if o.now != nil && o.now.name == name && !o.audits {
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
func (d *doing) work(now time.Duration) error {
	if d.own.now != nil {
		return nil
	}
	for len(d.own.must) > 0 {
		j := d.jobs[d.own.must[0]]
		d.own.must = d.own.must[1:]
		if j.payload == nil {
			d.Say("warning: fleet: job %s was begun %d times and not done by others: it is done here", j.Job, d.sched.Begins(j.name))
			return d.start(now, j, false)
		}
	}
	for len(d.own.check) > 0 {
		j := d.own.check[0]
		d.own.check = d.own.check[1:]
		if j.payload != nil && j.entry.Worker != Here {
			return d.start(now, j, true)
		}
	}
	for (d.Local || d.forsaken(now)) && d.sched.Waiting() > 0 {
		taken, err := d.Hub.Take(d.ctx)
		if err != nil {
			return fmt.Errorf("fleet: looking for a job to do here: %w", err)
		}
		if taken == nil {
			return nil
		}
		j := d.jobs[taken.Name()]
		if j == nil {
			continue // of a roll that is over
		}
		if useful, _ := d.sched.Begun(now, j.name, Here); useful {
			return d.start(now, j, false)
		}
	}
	return nil
}

// start does a job.
func (d *doing) start(now time.Duration, j *job, audits bool) error {
	if !audits {
		d.sched.Begun(now, j.name, Here)
	}
	ctx, stop := context.WithCancel(d.ctx)
	d.own.now, d.own.audits, d.own.stop, d.own.began = j, audits, stop, time.Now()
	go func() {
		var r ownEnd
		r.payload, r.err = d.here(ctx, j.Job)
		r.stopped = ctx.Err() != nil
		stop()
		d.own.ended <- r
	}()
	return nil
}

// ownResult takes what the trainer has done.
func (d *doing) ownResult(r ownEnd) error {
	j, audits := d.own.now, d.own.audits
	d.own.now = nil
	if r.err != nil {
		if r.stopped && d.ctx.Err() == nil {
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
			return nil
		}
		return d.dismiss(j, r.payload)
	}
	switch d.sched.Result(d.Clock(), j.name, Here, digest) {
	case First:
		d.mine(j, r.payload)
		return d.finished(j)
	case Differs:
		if !d.impure {
			return d.dismiss(j, r.payload)
		}
	}
	return nil
}

// mine makes a result of the trainer's own the one that counts.
func (d *doing) mine(j *job, payload []byte) {
	j.payload = payload
	j.entry = Entry{Job: j.name, Of: j.Job.String(), Worker: Here, Seconds: time.Since(d.own.began).Seconds(), Bytes: len(payload),
		Tries: d.sched.Begins(j.name), Payload: HashOf(payload)}
}

// compare has a job done here as well, once.
func (d *doing) compare(j *job) {
	if !slices.Contains(d.own.check, j) && (d.own.now != j || !d.own.audits) {
		d.own.check = append(d.own.check, j)
	}
}
