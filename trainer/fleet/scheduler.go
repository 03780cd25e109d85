package fleet

import (
	"slices"
	"time"
)

// Card: who does what is not decided here, for workers take jobs from a queue when they are free. What is decided
// is which jobs are put on the queue once more:
//
//	lease      the worker that began it was not heard of for Rules.Lease, left, or failed
//	silence    it waits, and none is begun though workers are idle: whoever carries jobs has lost it
//	hedge      nothing waits, a worker is idle, and the job takes Rules.Hedge times the median
//	here       it was begun Rules.Tries times: the trainer does it, and meets the error if it has one
//	hang       a worker is at it for Rules.Hang times the median: the trainer does it, too
//
// A result is fetched beside all this. While it is on its way its worker may take other jobs, and its own is offered to
// nobody but as a hedge.
//
// The first result counts. Every later one must have its bytes; one that has not is told, and nothing is changed.
//
// The caller says what it hears and what time it is; there is no clock and no goroutine in here. So the test drives
// this very code on virtual time.
//
// Invariants (tests): every job is done in the end, whatever is lost, as long as somebody works; a job that nobody
// disturbs is offered once.

// A Scheduler knows the jobs that are not done, and who is at them.
type Scheduler struct {
	Rules
	jobs    map[Hash]*task
	workers map[string]*worker
	waiting int                   // copies on the queue
	left    int                   // jobs that are not done
	busy    int                   // workers with a job
	took    map[string]*durations // by the kind of job
	leases  deadlines
	hangs   deadlines     // when a try is left to the trainer, too
	begun   []*try        // the oldest first, from where hedges are taken; some are over
	starved time.Duration // since when jobs wait beside idle workers, and none is begun
	starves bool
	spent   []*task // begun too often: the trainer is to do them
	out     int     // workers that were refused
	// Elsewhere says that the trainer waits for jobs of which none is on the queue: what is there is for others.
	Elsewhere bool
	Counts
}

// Counts are what a fleet did.
type Counts struct {
	Jobs     int `json:"jobs"`               // that were asked for
	Done     int `json:"done"`               // first results
	Again    int `json:"again,omitempty"`    // further results of the same bytes
	Differed int `json:"differed,omitempty"` // further results of other bytes
	Late     int `json:"late,omitempty"`     // results that nobody waits for
	Expired  int `json:"expired,omitempty"`  // leases
	Failed   int `json:"failed,omitempty"`   // tries
	Lost     int `json:"lost,omitempty"`     // copies that were offered again, since nobody took them
	Hedged   int `json:"hedged,omitempty"`
	Here     int `json:"here,omitempty"` // jobs that were left to the trainer
}

// A task is a job on its way.
type task struct {
	name    Hash
	took    *durations // of its kind
	copies  int        // on the queue
	tries   []*try     // under way
	begun   int        // tries so far
	by      []string   // whose
	hedged  bool
	here    bool // the trainer is to do it
	done    bool
	digest  Hash   // of the first result
	worker  string // whose it is
	offered time.Duration
}

// A try is a worker at a job.
type try struct {
	*task
	worker string
	began  time.Duration
	heard  time.Duration
	over   bool
	coming bool // its result is on its way
}

type worker struct {
	name    string
	heard   time.Duration
	tries   map[*try]bool
	refused bool
	suspect bool // a result of it is done here, too, and nothing of it counts until then
}

// NewScheduler has no jobs.
func NewScheduler(r Rules) *Scheduler {
	return &Scheduler{Rules: r, jobs: map[Hash]*task{}, workers: map[string]*worker{}, took: map[string]*durations{}}
}

// Left is how many jobs are not done; Waiting how many copies are on the queue; Workers how many are there beside
// the trainer, whose results count.
func (s *Scheduler) Left() int    { return s.left }
func (s *Scheduler) Waiting() int { return s.waiting }
func (s *Scheduler) Workers() int {
	n := len(s.workers) - s.out
	if s.workers[Here] != nil {
		n--
	}
	return n
}

// Knows reports whether a worker is there; Begins is how often a job was begun.
func (s *Scheduler) Knows(worker string) bool { return s.workers[worker] != nil }
func (s *Scheduler) Begins(name Hash) int {
	if t := s.jobs[name]; t != nil {
		return t.begun
	}
	return 0
}

// At are the workers that are at a job.
func (s *Scheduler) At(name Hash) (all []string) {
	if t := s.jobs[name]; t != nil {
		for _, x := range t.tries {
			all = append(all, x.worker)
		}
	}
	return all
}

// Waits reports whether a copy of a job is on the queue.
func (s *Scheduler) Waits(name Hash) bool {
	t := s.jobs[name]
	return t != nil && t.copies > 0
}

// Add takes a job on, once; the caller offers it. Jobs of a kind take about as long.
func (s *Scheduler) Add(now time.Duration, name Hash, kind string) bool {
	if s.jobs[name] != nil {
		return false
	}
	if s.took[kind] == nil {
		s.took[kind] = &durations{}
	}
	t := &task{name: name, took: s.took[kind]}
	s.jobs[name] = t
	s.left++
	s.Jobs++
	s.offer(now, t)
	return true
}

func (s *Scheduler) offer(now time.Duration, t *task) {
	t.copies++
	s.waiting++
	t.offered = now
}

// Remove forgets a job, whether it is done or not.
func (s *Scheduler) Remove(name Hash) {
	t := s.jobs[name]
	if t == nil {
		return
	}
	s.settle(t)
	if !t.done {
		s.left--
	}
	delete(s.jobs, name)
}

// settle ends all that is under way for a task.
func (s *Scheduler) settle(t *task) {
	s.waiting -= t.copies
	t.copies = 0
	for _, x := range t.tries {
		s.end(x)
	}
	t.tries = nil
}

// end ends a try, which its task no longer lists.
func (s *Scheduler) end(x *try) {
	x.over = true
	s.frees(x)
}

// frees lets a try's worker be at something else.
func (s *Scheduler) frees(x *try) {
	w := s.workers[x.worker]
	if w == nil || !w.tries[x] {
		return
	}
	if delete(w.tries, x); len(w.tries) == 0 {
		s.busy--
	}
}

// drop ends a try that came to nothing. Its task is offered again by Due, unless others are at it.
func (s *Scheduler) drop(x *try) {
	x.task.tries = slices.DeleteFunc(x.task.tries, func(y *try) bool { return x == y })
	s.end(x)
}

// Hello hears of a worker.
func (s *Scheduler) Hello(now time.Duration, name string) { s.seen(now, name) }

func (s *Scheduler) seen(now time.Duration, name string) *worker {
	w := s.workers[name]
	if w == nil {
		w = &worker{name: name, tries: map[*try]bool{}}
		s.workers[name] = w
		s.leases.push(now+s.Lease, nil, w)
	}
	w.heard = now
	return w
}

// Bye frees what a worker was at, and returns the jobs that are to be offered again. One that was refused stays
// known.
func (s *Scheduler) Bye(now time.Duration, name string) []Hash {
	w := s.workers[name]
	if w == nil || w.refused || w.suspect {
		return nil
	}
	var again []Hash
	for _, x := range sortedTries(w.tries) {
		s.drop(x)
		again = s.offerAgain(now, x.task, again)
	}
	delete(s.workers, name)
	return again
}

// sortedTries are a worker's in the order in which they were begun.
func sortedTries(m map[*try]bool) []*try {
	all := make([]*try, 0, len(m))
	for x := range m {
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b *try) int { return int(a.began - b.began) })
	return all
}

// offerAgain offers a task that nobody is at.
func (s *Scheduler) offerAgain(now time.Duration, t *task, to []Hash) []Hash {
	if t.done || t.here || t.copies > 0 || len(t.tries) > 0 {
		return to
	}
	if s.worn(t) {
		s.leave(t)
		return to
	}
	s.offer(now, t)
	return append(to, t.name)
}

// leave leaves a task to the trainer, whoever else is at it.
func (s *Scheduler) leave(t *task) {
	if !t.here && !t.done {
		t.here = true
		s.spent = append(s.spent, t)
	}
}

// Leave leaves a job to the trainer.
func (s *Scheduler) Leave(name Hash) {
	if t := s.jobs[name]; t != nil {
		s.leave(t)
	}
}

// worn reports whether a task was begun so often that the trainer is to do it: on two workers at least, where there
// are two.
func (s *Scheduler) worn(t *task) bool {
	return t.begun >= s.Tries && (len(t.by) > 1 || len(s.workers) < 2)
}
