package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
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
	// Say is a line for people, in the goroutine of a Wait; Log what was done of a job; nil: nobody asks.
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
	Dismissed string   `json:"dismissed,omitempty"`
	Course    Timeline `json:"-"`
	Iteration int      `json:"-"` // that its samples are of, from 0
}

// Here is the name by which the trainer works itself.
const Here = "here"

// A Fleet has jobs done: several batches at once, of which each is gathered in its order.
//
// One goroutine hears workers while a batch is open (loop.go); who waits for a batch works, too (own.go). All that
// they share is guarded by mu.
type Fleet struct {
	Options
	mu       sync.Mutex
	about    map[string]About // workers, by name
	refused  map[string]string
	coming   map[string][]*arrival // results on their way, by worker (arriving.go)
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
}

// New is a fleet without workers, which come when they like.
func New(o Options) *Fleet {
	if o.Clock == nil {
		o.Clock = Real()
	}
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	return &Fleet{Options: o, about: map[string]About{}, refused: map[string]string{}, coming: map[string][]*arrival{}, suspects: map[string]*job{}, faults: map[string]int{}, sched: NewScheduler(o.Rules), jobs: map[Hash]*job{}, wake: make(chan struct{}, 1)}
}

// Counts are what was done so far.
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

// Forget lets go of what is kept of jobs whose samples are learned from.
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

// DoBy is Do, and says who did each job.
func (f *Fleet) DoBy(ctx context.Context, w Work) (payloads [][]byte, by []string, err error) {
	b, err := f.Begin(ctx, w)
	if err != nil {
		return nil, nil, err
	}
	defer b.Drop()
	payloads, err = b.Wait(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, j := range b.jobs {
		by = append(by, j.entry.Worker)
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
	accused []claim // what workers brought for it that cannot be its result
	check   bool    // it is to be compared
	entry   Entry
	course  Timeline
}

// told says something to people when somebody waits.
func (f *Fleet) told(format string, args ...any) {
	f.lines = append(f.lines, fmt.Sprintf(format, args...))
}

// Tell is told, of somebody who does not hold mu.
func (f *Fleet) Tell(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told(format, args...)
}

// Speak says what was found since somebody waited last.
func (f *Fleet) Speak() {
	f.mu.Lock()
	lines := f.lines
	f.lines = nil
	f.mu.Unlock()
	for _, line := range lines {
		f.Say("%s", line)
	}
}

// rouse lets the loop look again.
func (f *Fleet) rouse() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// start begins to hear workers, if nobody does.
func (f *Fleet) start() {
	if f.running {
		return
	}
	now := f.Clock()
	f.running, f.broken, f.alone, f.said = true, nil, now, false
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
