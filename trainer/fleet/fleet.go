package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Options are what a fleet needs.
type Options struct {
	Hub   Hub
	Rules Rules
	Local bool    // the trainer works, too
	Audit float64 // the share of others' jobs that is done here once more and compared
	Salt  Hash    // by which these are chosen: workers must not know it
	Clock Clock   // nil: the machine's
	// Say is a line for people, Log what was done of a job; nil: nobody asks.
	Say func(format string, args ...any)
	Log func(Entry)
}

// An Entry is who did a job, for fleet.jsonl.
type Entry struct {
	Job     Hash    `json:"job"`
	Of      string  `json:"of"` // which samples, for people
	Worker  string  `json:"worker"`
	Seconds float64 `json:"seconds"`
	Bytes   int     `json:"bytes,omitempty"`
	Tries   int     `json:"tries"`
	Payload Hash    `json:"payload"`
	Audited bool    `json:"audited,omitempty"`
	Kept    bool    `json:"kept,omitempty"` // it was done for a trainer that has ended
	At      float64 `json:"at"`             // seconds since 1970, when it was written down
	// Dismissed is why nothing more of the worker counts; then the line is about no job.
	Dismissed string `json:"dismissed,omitempty"`
}

// Here is the name by which the trainer works itself.
const Here = "here"

// A Fleet has jobs done.
type Fleet struct {
	Options
	about   map[string]About // workers, by name
	refused map[string]string
	counts  Counts
	impure  bool // what a job results in does not follow from its name alone: it asks programs or servers
}

// New is a fleet without workers, which come when they like.
func New(o Options) *Fleet {
	if o.Clock == nil {
		o.Clock = Real()
	}
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	return &Fleet{Options: o, about: map[string]About{}, refused: map[string]string{}}
}

// Counts are what was done so far.
func (f *Fleet) Counts() Counts { return f.counts }

// Workers is how many are known.
func (f *Fleet) Workers() int { return len(f.about) }

// Doing is how the trainer does a job itself. ctx ends when somebody else was quicker.
type Doing func(ctx context.Context, j Job) (payload []byte, err error)

// Do has jobs done, and returns their results in their order. check says whether a result can be a job's; told
// hears of every job that is done.
func (f *Fleet) Do(ctx context.Context, jobs []Job, here Doing, check func(j Job, payload []byte) error, told func(done int)) ([][]byte, error) {
	d := &doing{Fleet: f, ctx: ctx, here: here, check: check, told: told, sched: NewScheduler(f.Rules), jobs: map[Hash]*job{}, own: newOwn()}
	defer d.close()
	for _, j := range jobs {
		d.order = append(d.order, j.Name())
	}
	if err := d.begin(jobs); err != nil {
		return nil, err
	}
	if err := d.loop(); err != nil {
		return nil, err
	}
	out := make([][]byte, len(d.order))
	for i, name := range d.order {
		out[i] = d.jobs[name].payload
	}
	return out, nil
}

// doing is a Do under way.
type doing struct {
	*Fleet
	ctx   context.Context
	here  Doing
	check func(j Job, payload []byte) error
	told  func(done int)
	sched *Scheduler
	order []Hash
	jobs  map[Hash]*job
	own   *own
	done  int
	alone time.Duration // when nobody was found to be there; it is said once
	said  bool
}

// job is one of them.
type job struct {
	Job
	name    Hash
	payload []byte // nil: it has no result yet
	entry   Entry
}

// begin takes jobs on: those whose results are kept are done, the others are offered.
func (d *doing) begin(jobs []Job) error {
	now := d.Clock()
	d.alone = now
	for worker := range d.about {
		d.sched.Hello(now, worker)
	}
	for worker := range d.refused {
		d.sched.Refuse(now, worker, nil)
	}
	for i, j := range jobs {
		name := d.order[i]
		if d.jobs[name] != nil {
			continue
		}
		d.jobs[name] = &job{Job: j, name: name}
		d.sched.Add(now, name)
	}
	for i, name := range d.order {
		kept, err := d.Hub.Kept(d.ctx, name)
		if err != nil {
			return fmt.Errorf("fleet: asking for what was kept of job %s: %w", jobs[i], err)
		}
		if kept != nil && d.jobs[name].payload == nil {
			if err := d.result(*kept, true); err != nil {
				return err
			}
		}
		if d.jobs[name].payload != nil {
			continue
		}
		if err := d.Hub.Offer(d.ctx, name, jobs[i], false); err != nil {
			return fmt.Errorf("fleet: offering job %s: %w", jobs[i], err)
		}
	}
	return nil
}

// loop hears and decides until all is done and audited.
func (d *doing) loop() error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if err := d.act(); err != nil {
			return err
		}
		if d.sched.Left() == 0 && !d.own.atWork() {
			return nil
		}
		timer.Reset(d.wait())
		select {
		case <-d.ctx.Done():
			return context.Cause(d.ctx)
		case e, ok := <-d.Hub.Events():
			if !ok {
				return errors.New("fleet: what carries jobs was closed")
			}
			if err := d.hear(e); err != nil {
				return err
			}
		case r := <-d.own.ended:
			if err := d.ownResult(r); err != nil {
				return err
			}
		case <-timer.C:
		}
	}
}

// poll is how long the trainer waits before it looks again for a job to do itself.
const poll = 50 * time.Millisecond

// wait is how long nothing has to be done if nothing is heard.
func (d *doing) wait() time.Duration {
	wait := d.Rules.Beats()
	if at, ok := d.sched.Next(); ok {
		wait = min(wait, at-d.Clock())
	}
	if d.own.now == nil && d.sched.Waiting() > 0 {
		wait = min(wait, poll)
	}
	return max(wait, time.Millisecond)
}

// act does what time brings about, and begins work here.
func (d *doing) act() error {
	now := d.Clock()
	if j := d.own.now; j != nil && !d.own.audits {
		d.sched.Beat(now, j.name, Here)
	}
	d.lone(now)
	offer, here := d.sched.Due(now)
	d.own.must = append(d.own.must, here...)
	if err := d.offer(offer); err != nil {
		return err
	}
	return d.work(now)
}

// lone sees when nobody is there, and says so.
func (d *doing) lone(now time.Duration) {
	switch {
	case d.Local || d.sched.Workers() > 0:
		d.alone = now
	case !d.said && d.forsaken(now):
		d.said = true
		d.Say("fleet: no worker is there, and %d jobs wait: they are done here until one comes", d.sched.Left())
	}
}

// forsaken reports whether the trainer has to work though it was to leave that to others.
func (d *doing) forsaken(now time.Duration) bool {
	return d.sched.Workers() == 0 && now-d.alone >= d.Rules.Lease
}

// offer offers jobs once more.
func (d *doing) offer(names []Hash) error {
	for _, name := range names {
		if err := d.Hub.Offer(d.ctx, name, d.jobs[name].Job, true); err != nil {
			return fmt.Errorf("fleet: offering job %s again: %w", d.jobs[name].Job, err)
		}
	}
	return nil
}

// hear is told what a worker says.
func (d *doing) hear(e Event) error {
	now := d.Clock()
	switch e.Kind {
	case Hello:
		d.met(e)
		d.sched.Hello(now, e.Worker)
	case Bye:
		delete(d.about, e.Worker)
		return d.offer(d.sched.Bye(now, e.Worker))
	case Begun:
		useful, again := d.sched.Begun(now, e.Job, e.Worker)
		if !useful {
			if err := d.Hub.Withdraw(d.ctx, e.Job); err != nil {
				return err
			}
		}
		return d.offer(again)
	case Beat:
		d.sched.Beat(now, e.Job, e.Worker)
	case Failed:
		if d.jobs[e.Job] != nil {
			d.Say("fleet: worker %s could not do job %s: %s", e.Worker, d.jobs[e.Job].Job, e.Why)
		}
		return d.offer(d.sched.Failed(now, e.Job, e.Worker))
	case Done:
		return d.result(e, false)
	}
	return nil
}

// met remembers a worker.
func (f *Fleet) met(e Event) {
	if _, known := f.about[e.Worker]; known || e.About == nil {
		return
	}
	f.about[e.Worker] = *e.About
	f.Say("fleet: worker %s is there (%s %s)", e.Worker, e.About.Host, e.About.Device)
}

// result takes what a worker has done, or what was kept of it.
func (d *doing) result(e Event, kept bool) error {
	j := d.jobs[e.Job]
	switch d.sched.Result(d.Clock(), e.Job, e.Worker, e.Payload) {
	case Unasked: // nobody will take it
		return d.Hub.Forget(d.ctx, e.Job)
	case Repeated:
		return nil
	case Differs:
		if d.impure {
			return nil
		}
		d.Say("warning: fleet: job %s has other bytes from worker %s than from %s: it is done here, too", j.Job, e.Worker, d.sched.Of(e.Job))
		d.compare(j)
		return nil
	}
	payload, err := d.Hub.Get(d.ctx, e.Payload)
	if err == nil {
		err = d.check(j.Job, payload)
	}
	if err != nil {
		if d.ctx.Err() != nil {
			return context.Cause(d.ctx)
		}
		d.Say("warning: fleet: the result of job %s from worker %s is of no use, and it is done again: %v", j.Job, e.Worker, err)
		if err := d.Hub.Forget(d.ctx, e.Job); err != nil {
			return err
		}
		again := d.sched.Reopen(d.Clock(), e.Job)
		if kept {
			return nil // it is offered with the others
		}
		return d.offer(again)
	}
	j.payload, j.entry = payload, Entry{Job: e.Job, Of: j.Job.String(), Worker: e.Worker, Seconds: e.Seconds, Bytes: len(payload),
		Tries: d.sched.Begins(e.Job), Payload: e.Payload, Kept: kept}
	if d.audited(j) {
		d.compare(j)
	}
	return d.finished(j)
}

// finished is told of a job that has a result.
func (d *doing) finished(j *job) error {
	if d.done++; d.told != nil {
		d.told(d.done)
	}
	d.own.unless(j.name)
	return d.Hub.Withdraw(d.ctx, j.name)
}

// close lets go of all, when all is done or nothing more is wanted.
func (d *doing) close() {
	d.own.end()
	late := context.WithoutCancel(d.ctx)
	for _, j := range d.jobs {
		if d.Log != nil && j.payload != nil {
			d.Log(j.entry)
		}
		if j.payload == nil {
			_ = d.Hub.Withdraw(late, j.name) // what nobody waits for does no harm
		}
	}
	for name := range d.about {
		if !d.sched.Knows(name) {
			delete(d.about, name)
		}
	}
	d.counts.add(d.sched.Counts)
}

// Forget lets go of what is kept of jobs whose samples are learned from.
func (f *Fleet) Forget(ctx context.Context, names []Hash) error {
	var errs []error
	for _, name := range names {
		errs = append(errs, f.Hub.Forget(ctx, name))
	}
	return errors.Join(errs...)
}

func (c *Counts) add(more Counts) {
	c.Jobs, c.Done, c.Again, c.Differed = c.Jobs+more.Jobs, c.Done+more.Done, c.Again+more.Again, c.Differed+more.Differed
	c.Late, c.Expired, c.Failed, c.Lost = c.Late+more.Late, c.Expired+more.Expired, c.Failed+more.Failed, c.Lost+more.Lost
	c.Hedged, c.Here = c.Hedged+more.Hedged, c.Here+more.Here
}
