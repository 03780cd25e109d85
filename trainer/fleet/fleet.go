package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

// Options are a fleet's parameters.
type Options struct {
	Hub   Hub
	Rules Rules
	Local bool    // the trainer works, too
	Audit float64 // the share of others' jobs that is done here once more and compared
	Salt  Hash    // by which these are chosen: workers must not know it
	Clock Clock   // nil: the machine's
	// Logf is a line for people, in the goroutine of a Wait; Log records events of a job; nil: nobody asks.
	Logf func(format string, args ...any)
	Log  func(Entry)
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
	Dismissed string   `json:"dismissed,omitempty"`
	Course    Timeline `json:"-"`
	Iteration int      `json:"-"` // that its samples are of, from 0
}

// Here is the name by which the trainer works itself.
const Here = "here"

// A Fleet has jobs done: several batches at once, of which each is gathered in its order.
//
// One goroutine takes workers' events while a batch is open (loop); who waits for a batch works, too (batch.go). All
// that they share is guarded by mu.
type Fleet struct {
	Options
	mu       sync.Mutex
	about    map[string]About // workers, by name
	refused  map[string]string
	coming   map[string][]*arrival // results on their way, by worker (results.go)
	suspects map[string]*job       // workers of which a result is compared before anything else of them counts
	faults   map[string]int        // results of no use that nobody could compare, by worker
	sched    *Scheduler
	jobs     map[Hash]*job // of open batches
	open     []*Batch      // the oldest first
	running  bool          // the loop is
	wake     chan struct{} // there is a new batch, or one less
	broken   error         // why nothing can be gathered any more
	alone    time.Duration // when nobody was found to be there; it is said once
	said     bool
	lines    []string // for people
	idle     string   // why nothing of the run is for this fleet's workers; "": something is
}

// New is a fleet without workers, which come when they like.
func New(o Options) *Fleet {
	if o.Clock == nil {
		o.Clock = Real()
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	return &Fleet{Options: o, about: map[string]About{}, refused: map[string]string{}, coming: map[string][]*arrival{}, suspects: map[string]*job{}, faults: map[string]int{}, sched: NewScheduler(o.Rules), jobs: map[Hash]*job{}, wake: make(chan struct{}, 1)}
}

// Counts are the numbers of jobs until now.
func (f *Fleet) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sched.Counts
}

// Workers is how many are known.
func (f *Fleet) Workers() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.about)
}

// Refused are the workers that were dismissed, and why.
func (f *Fleet) Refused() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.refused)
}

// Forget drops kept results of jobs whose samples are learned from.
func (f *Fleet) Forget(ctx context.Context, names []Hash) error {
	var errs []error
	for _, name := range names {
		errs = append(errs, f.Hub.Forget(ctx, name))
	}
	return errors.Join(errs...)
}

// Do has jobs done, and returns their results in their order.
func (f *Fleet) Do(ctx context.Context, w Work) ([][]byte, error) {
	payloads, _, err := f.DoBy(ctx, w)
	return payloads, err
}

// DoBy is Do, and returns the entry of each job.
func (f *Fleet) DoBy(ctx context.Context, w Work) (payloads [][]byte, by []Entry, err error) {
	b, err := f.Begin(ctx, w)
	if err != nil {
		return nil, nil, err
	}
	defer b.Drop()
	payloads, err = b.Wait(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, j := range b.jobs {
		by = append(by, j.entry)
	}
	return payloads, by, err
}

// job is one of an open batch, or of several.
type job struct {
	Job
	name    Hash
	of      []*Batch
	payload []byte  // nil: it has no result yet
	must    bool    // it is left to the trainer
	accused []claim // workers' invalid results for it
	check   bool    // it is to be compared
	entry   Entry
	course  Timeline
}

// told prints a line at the next Wait.
func (f *Fleet) told(format string, args ...any) {
	f.lines = append(f.lines, fmt.Sprintf(format, args...))
}

// Tell is told for callers that do not hold mu.
func (f *Fleet) Tell(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told(format, args...)
}

// Flush prints the lines since the last Wait.
func (f *Fleet) Flush() {
	f.mu.Lock()
	lines := f.lines
	f.lines = nil
	f.mu.Unlock()
	for _, line := range lines {
		f.Logf("%s", line)
	}
}

// rouse lets the loop look again.
func (f *Fleet) rouse() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// start begins to take events of workers, if no goroutine does.
func (f *Fleet) start() {
	if f.running {
		return
	}
	now := f.Clock()
	f.alone = now
	if f.said { // nobody was there before: who has come since says so at once
		f.alone += f.Rules.Lease/30 - f.Rules.Lease
	}
	f.running, f.broken, f.said = true, nil, false
	for worker := range f.about {
		f.sched.Hello(now, worker)
	}
	go f.loop()
}

// prune forgets workers that have left.
func (f *Fleet) prune() {
	for name := range f.about {
		if !f.sched.Knows(name) {
			delete(f.about, name)
		}
	}
}

// names are those of all open jobs, in their order.
func (f *Fleet) names() (all []Hash) {
	for _, b := range f.open {
		for _, j := range b.jobs {
			if j.of[0] == b {
				all = append(all, j.name)
			}
		}
	}
	return all
}

// closed takes a batch off the list.
func (f *Fleet) closed(b *Batch) bool {
	at := slices.Index(f.open, b)
	if at < 0 {
		return false
	}
	f.open = slices.Delete(f.open, at, at+1)
	return true
}

// Events of workers, and a fleet's reactions.

// loop takes events of workers while a batch is open.
func (f *Fleet) loop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wait, over := f.round()
		if over {
			return
		}
		timer.Reset(wait)
		select {
		case e, ok := <-f.Hub.Events():
			f.mu.Lock()
			err := errors.New("fleet: what carries jobs was closed")
			if ok {
				err = f.hear(e)
			}
			f.fails(err)
			f.mu.Unlock()
		case <-f.wake:
		case <-timer.C:
		}
	}
}

// fails keeps the first error, and wakes all who wait.
func (f *Fleet) fails(err error) {
	if err == nil || f.broken != nil {
		return
	}
	f.broken = err
	for _, b := range f.open {
		b.notify()
	}
}

// round does the work that is due, and returns the time until the next.
func (f *Fleet) round() (wait time.Duration, over bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.open) == 0 || f.broken != nil {
		f.running = false
		return 0, true
	}
	now := f.Clock()
	f.lone(now)
	offer, here := f.sched.Due(now)
	for _, name := range here {
		if j := f.jobs[name]; j != nil {
			j.must = true
			j.notify()
		}
	}
	f.fails(f.offer(offer))
	wait = f.Rules.Beats()
	if at, ok := f.sched.Next(); ok {
		wait = min(wait, at-now)
	}
	return max(wait, time.Millisecond), false
}

// lone sees when nobody is there, and says so.
func (f *Fleet) lone(now time.Duration) {
	switch {
	case f.Local || f.sched.Workers() > 0:
		f.alone = now
	case !f.said && f.forsaken(now):
		f.said = true
		f.told("fleet: no worker is there, and %d jobs wait: they are done here until one comes", f.sched.Left())
		for _, b := range f.open {
			b.notify()
		}
	}
}

// forsaken reports whether the trainer has to work though it was to leave that to others.
func (f *Fleet) forsaken(now time.Duration) bool {
	return f.sched.Workers() == 0 && now-f.alone >= f.Rules.Lease
}

// offer offers jobs once more.
func (f *Fleet) offer(names []Hash) error {
	for _, name := range names {
		j := f.jobs[name]
		if j == nil {
			continue
		}
		if err := f.Hub.Offer(context.Background(), name, j.Job, true); err != nil {
			return fmt.Errorf("fleet: offering job %s again: %w", j.Job, err)
		}
		j.notify() // the trainer may be free
	}
	return nil
}

// hear takes a worker's event.
func (f *Fleet) hear(e Event) error {
	now := f.Clock()
	switch e.Kind {
	case Hello:
		f.met(e)
		f.sched.Hello(now, e.Worker)
	case Bye:
		delete(f.about, e.Worker)
		return f.offer(f.sched.Bye(now, e.Worker))
	case Begun:
		useful, again := f.sched.Begun(now, e.Job, e.Worker)
		if !useful {
			if err := f.Hub.Withdraw(context.Background(), e.Job); err != nil {
				return err
			}
		} else {
			f.jobs[e.Job].course.leased(e.Worker)
		}
		return f.offer(again)
	case Beat:
		f.sched.Beat(now, e.Job, e.Worker)
	case Failed:
		if j := f.jobs[e.Job]; j != nil {
			why := shown(e.Why, 1000)
			f.told("fleet: worker %s could not do job %s: %s", e.Worker, j.Job, why)
			j.course.failed(e.Worker, why)
		}
		return f.offer(f.sched.Failed(now, e.Job, e.Worker))
	case Done:
		f.sched.Hello(now, e.Worker)
		return f.done(e, false)
	case Dismissed:
		return f.elsewhere(context.Background(), e)
	}
	return nil
}

// shown is a worker's text cut to most characters and one line: nobody speaks as the trainer.
func shown(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text[:min(len(text), 4*most)], ""))
	if all := []rune(text); len(all) > most {
		text = string(all[:most]) + "..."
	}
	return text
}

// met remembers a worker.
func (f *Fleet) met(e Event) {
	if _, known := f.about[e.Worker]; known || e.About == nil || f.refused[e.Worker] != "" {
		return
	}
	f.about[e.Worker] = *e.About
	f.told("fleet: worker %s is there (%s %s)", e.Worker, shown(e.About.Host, 80), shown(e.About.Device, 80))
	if f.idle != "" {
		f.told("warning: fleet: worker %s waits for nothing: %s", e.Worker, f.idle)
	}
}

// notify lets who waits for the job look again.
func (j *job) notify() {
	for _, b := range j.of {
		b.notify()
	}
}

// impure reports whether a job may have other bytes when it is done again.
func (j *job) impure() bool { return j.of[0].Impure }

// finished is called for a job that has a result.
func (f *Fleet) finished(ctx context.Context, j *job) error {
	for _, b := range j.of {
		b.left--
		b.done++
		b.own.unless(j.name)
		b.notify()
	}
	return f.Hub.Withdraw(ctx, j.name)
}

// reopened is called for a job whose result does not count any more.
func (j *job) reopened() {
	j.payload = nil
	for _, b := range j.of {
		b.left++
		b.done--
	}
}
