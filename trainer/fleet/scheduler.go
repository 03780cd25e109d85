package fleet

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// Rules say when a job is offered again.
type Rules struct {
	Lease time.Duration // a worker that is silent for this time has lost its job
	Hedge float64       // a job that takes this many times the median is given to an idle worker, too; 0: never
	// Silence is how long jobs may wait beside idle workers before they are offered again: they are lost.
	Silence time.Duration
	Tries   int // a job that was begun so often, and not done, is done by the trainer itself
	// Hang is how many times the median a worker may be at a job before the trainer does it, too, idle workers or not:
	// a device that hangs does not keep its process from saying that it is there. Unknown is that of a job of which no
	// other of its kind was finished. 0: as long as it likes.
	Hang    float64
	Unknown time.Duration
}

// Usual are those of a fleet that nothing is known of.
func Usual() Rules {
	return Rules{Lease: 30 * time.Second, Hedge: 1.5, Silence: 20 * time.Second, Tries: 5, Hang: 10, Unknown: 10 * time.Minute}
}

// Beats is how often a worker says that it is still there: four may be lost.
func (r Rules) Beats() time.Duration { return r.Lease / 5 }

// Card: workers take jobs from a queue when they are free, so this does not assign them. It decides which jobs are
// put on the queue once more:
//
//	lease      the worker that began it was silent for Rules.Lease, left, or failed
//	silence    it waits, and none is begun though workers are idle: the queue has lost it
//	hedge      nothing waits, a worker is idle, and the job takes Rules.Hedge times the median
//	here       it was begun Rules.Tries times: the trainer does it, and meets the error if it has one
//	hang       a worker is at it for Rules.Hang times the median: the trainer does it, too
//
// A result is fetched beside all this. While it is on its way its worker may take other jobs, and its own is offered to
// nobody but as a hedge.
//
// The first result counts. Every later one must have its bytes; a different one is reported, and nothing is changed.
//
// The caller passes events and the time; there is no clock and no goroutine in here. So the test drives this very
// code on virtual time.
//
// Invariants (tests): every job is done in the end, whatever is lost, as long as somebody works; a job that nobody
// disturbs is offered once.

// A Scheduler knows the jobs that are not done, and their workers.
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
	// Elsewhere says that the trainer waits for jobs of which none is on the queue: its content is for others.
	Elsewhere bool
	Counts
}

// Counts are a fleet's counts.
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

// Hello takes a worker's sign of life.
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

// Bye frees a worker's job, and returns the jobs to offer again. One that was refused stays known.
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
	slices.SortFunc(all, func(a, b *try) int {
		return cmp.Or(cmp.Compare(a.began, b.began), slices.Compare(a.name[:], b.name[:]))
	})
	return all
}

// triesOf are a worker's, those among them whose results are on their way.
func (s *Scheduler) triesOf(by string) []*try {
	all := map[*try]bool{}
	for _, t := range s.jobs {
		for _, x := range t.tries {
			if x.worker == by {
				all[x] = true
			}
		}
	}
	return sortedTries(all)
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

// leave leaves a task to the trainer, whatever workers are at it.
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

// mostMeasured is how many jobs the median is of.
const mostMeasured = 256

// durations are those of the jobs that were finished last.
type durations struct {
	ring   []time.Duration // in the order in which they came
	next   int
	sorted []time.Duration
}

// add forgets the oldest where there is no more room.
func (d *durations) add(x time.Duration) {
	if len(d.ring) < mostMeasured {
		d.ring = append(d.ring, x)
	} else {
		at, _ := slices.BinarySearch(d.sorted, d.ring[d.next])
		d.sorted = slices.Delete(d.sorted, at, at+1)
		d.ring[d.next], d.next = x, (d.next+1)%mostMeasured
	}
	at, _ := slices.BinarySearch(d.sorted, x)
	d.sorted = slices.Insert(d.sorted, at, x)
}

// median is 0 where nothing was finished.
func (d *durations) median() time.Duration {
	if len(d.sorted) == 0 {
		return 0
	}
	return d.sorted[len(d.sorted)/2]
}

// Events of a job under way.

// Begun takes the event that a worker took a copy. It is of no use where the job is done or unknown: then the caller
// withdraws it. A job that a refused worker took is offered again.
func (s *Scheduler) Begun(now time.Duration, name Hash, by string) (useful bool, again []Hash) {
	w, t := s.seen(now, by), s.jobs[name]
	s.starves = false // jobs come through
	if t == nil {
		return false, nil
	}
	if t.copies > 0 {
		t.copies--
		s.waiting--
	}
	if t.done || w.refused || w.suspect {
		return false, s.offerAgain(now, t, nil)
	}
	if slices.ContainsFunc(t.tries, func(x *try) bool { return x.worker == by }) {
		return true, nil // said twice
	}
	x := &try{task: t, worker: by, began: now, heard: now}
	if len(w.tries) == 0 {
		s.busy++
	}
	w.tries[x] = true
	t.tries = append(t.tries, x)
	t.begun++
	if !slices.Contains(t.by, by) {
		t.by = append(t.by, by)
	}
	s.begun = append(s.begun, x)
	s.leases.push(now+s.Lease, x, nil)
	if by != Here && s.Hang > 0 {
		s.looksAt(now, x)
	}
	return true, nil
}

// Beat takes the event that a worker is still at a job.
func (s *Scheduler) Beat(now time.Duration, name Hash, by string) {
	s.seen(now, by)
	t := s.jobs[name]
	if t == nil || t.done {
		return
	}
	for _, x := range t.tries {
		if x.worker == by {
			x.heard = now
			return
		}
	}
	s.Begun(now, name, by) // its word was lost, or its lease had ended
}

// Coming takes the event that a worker has done a job, and that its result is on its way: the worker is free.
func (s *Scheduler) Coming(now time.Duration, name Hash, by string) {
	t := s.jobs[name]
	if t == nil || t.done {
		return
	}
	i := slices.IndexFunc(t.tries, func(x *try) bool { return x.worker == by })
	if i < 0 { // its word that it began was lost, or its lease had ended
		t.tries = append(t.tries, &try{task: t, worker: by, began: now, coming: true})
		return
	}
	x := t.tries[i]
	x.coming = true
	s.frees(x)
}

// Gone takes the failure of a result that did not come, or is of no use.
func (s *Scheduler) Gone(now time.Duration, name Hash, by string) (again []Hash) {
	t := s.jobs[name]
	if t == nil || t.done {
		return nil
	}
	for _, x := range t.tries {
		if x.worker == by && x.coming {
			s.Counts.Failed++
			s.drop(x)
			return s.offerAgain(now, t, nil)
		}
	}
	return nil
}

// Failed takes the event that a worker could not do a job.
func (s *Scheduler) Failed(now time.Duration, name Hash, by string) (again []Hash) {
	s.seen(now, by)
	t := s.jobs[name]
	if t == nil || t.done {
		return nil
	}
	for _, x := range t.tries {
		if x.worker == by {
			s.Counts.Failed++
			s.drop(x)
			return s.offerAgain(now, t, nil)
		}
	}
	return nil
}

// Effects of time alone: leases that end, copies that were lost, hedges, and jobs that are left to the trainer.

// Due says which jobs to offer now, and which the trainer has to do itself.
func (s *Scheduler) Due(now time.Duration) (offer, here []Hash) {
	offer = s.expire(now, nil)
	offer = s.lost(now, offer)
	offer = s.hedge(now, offer)
	s.hang(now)
	return offer, s.wornOut()
}

// expire ends leases of silent workers.
func (s *Scheduler) expire(now time.Duration, offer []Hash) []Hash {
	for len(s.leases) > 0 && s.leases[0].at <= now {
		d := heap.Pop(&s.leases).(deadline)
		if w := d.worker; w != nil {
			switch {
			case s.workers[w.name] != w: // it has left
			case w.heard+s.Lease > now:
				s.leases.push(w.heard+s.Lease, nil, w)
			default:
				s.Expired += len(w.tries)
				offer = append(offer, s.Bye(now, w.name)...)
			}
			continue
		}
		switch x := d.try; {
		case x.over || x.coming: // a result has a limit of its own
		case x.heard+s.Lease > now:
			s.leases.push(x.heard+s.Lease, x, nil)
		default:
			s.Expired++
			s.drop(x)
			offer = s.offerAgain(now, x.task, offer)
		}
	}
	return offer
}

// idle is how many workers have nothing to do.
func (s *Scheduler) idle() int { return len(s.workers) - s.busy - s.out }

// rests reports whether a worker is there and has nothing to do.
func (s *Scheduler) rests(name string) bool {
	w := s.workers[name]
	return w != nil && len(w.tries) == 0 && !w.refused && !w.suspect
}

// lost offers all that waits once more, where for too long no job was begun though workers are idle.
func (s *Scheduler) lost(now time.Duration, offer []Hash) []Hash {
	if s.waiting == 0 || s.idle() == 0 || s.idle() == 1 && s.Elsewhere && s.rests(Here) {
		s.starves = false
		return offer
	}
	if !s.starves {
		s.starves, s.starved = true, now
	}
	if now-s.starved < s.Silence {
		return offer
	}
	s.starved = now
	var waits []*task
	for _, t := range s.jobs {
		if !t.done && !t.here && t.copies > 0 && len(t.tries) == 0 && now-t.offered >= s.Silence {
			waits = append(waits, t)
		}
	}
	slices.SortFunc(waits, func(a, b *task) int {
		if a.offered != b.offered {
			return int(a.offered - b.offered)
		}
		return slices.Compare(a.name[:], b.name[:])
	})
	for _, t := range waits {
		s.Lost++
		s.waiting -= t.copies // whichever of them still waits does no harm
		t.copies = 0
		s.offer(now, t)
		offer = append(offer, t.name)
	}
	return offer
}

// hedge offers jobs that take long to workers that have nothing to do.
func (s *Scheduler) hedge(now time.Duration, offer []Hash) []Hash {
	for s.waiting < s.idle() {
		x := s.oldest()
		if x == nil || now < x.began+s.patience(x) {
			break
		}
		s.begun = s.begun[1:]
		x.hedged = true
		s.Hedged++
		s.offer(now, x.task)
		offer = append(offer, x.name)
	}
	return offer
}

// patience is how long a job may take before it is hedged.
func (s *Scheduler) patience(x *try) time.Duration {
	return time.Duration(s.Hedge * float64(x.took.median()))
}

// oldest is the longest try under way, of those without another beside them.
func (s *Scheduler) oldest() *try {
	if s.Hedge == 0 {
		return nil
	}
	for len(s.begun) > 0 {
		x := s.begun[0]
		if !x.over && !x.hedged && !x.here && len(x.task.tries) == 1 {
			if x.took.median() == 0 { // nothing of its kind was finished yet
				return nil
			}
			return x
		}
		s.begun = s.begun[1:]
	}
	return nil
}

// tolerance is how long a worker may be at a job before the trainer does it, too.
func (s *Scheduler) tolerance(x *try) time.Duration {
	if m := x.took.median(); m > 0 {
		return max(time.Duration(s.Hang*float64(m)), 2*s.Lease)
	}
	return s.Unknown
}

// looksAt says when to look whether a worker hangs: the tolerance changes with the median.
func (s *Scheduler) looksAt(now time.Duration, x *try) {
	s.hangs.push(min(x.began+s.tolerance(x), now+2*s.Lease), x, nil)
}

// hang leaves jobs to the trainer that a worker is at for too long.
func (s *Scheduler) hang(now time.Duration) {
	for len(s.hangs) > 0 && s.hangs[0].at <= now {
		x := heap.Pop(&s.hangs).(deadline).try
		switch {
		case x.over || x.here || x.done:
		case x.began+s.tolerance(x) > now:
			s.looksAt(now, x)
		default:
			s.leave(x.task)
		}
	}
}

// wornOut are the jobs that the trainer has to do from now on.
func (s *Scheduler) wornOut() (here []Hash) {
	for _, t := range s.spent {
		if s.jobs[t.name] == t && !t.done {
			s.Here++
			here = append(here, t.name)
		}
	}
	s.spent = nil
	return here
}

// Next is the time of the next Due, if no event comes until then; false: never.
func (s *Scheduler) Next() (at time.Duration, ok bool) {
	sooner := func(x time.Duration) {
		if !ok || x < at {
			at, ok = x, true
		}
	}
	if len(s.spent) > 0 {
		return 0, true
	}
	for _, d := range []deadlines{s.leases, s.hangs} {
		if len(d) > 0 {
			sooner(d[0].at)
		}
	}
	if s.starves {
		sooner(s.starved + s.Silence)
	}
	if s.waiting < s.idle() {
		if x := s.oldest(); x != nil {
			sooner(x.began + s.patience(x))
		}
	}
	return at, ok
}

// A deadline is the latest time for a sign of life of a try, or of a worker.
type deadline struct {
	at     time.Duration
	try    *try    // nil: of the worker
	worker *worker // nil: of the try
}

// deadlines are a heap. They are not moved by a sign of life, but looked at again when they come up.
type deadlines []deadline

func (d *deadlines) push(at time.Duration, x *try, w *worker) {
	heap.Push(d, deadline{at, x, w})
}

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].at < d[j].at }
func (d deadlines) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *deadlines) Push(x any)        { *d = append(*d, x.(deadline)) }
func (d *deadlines) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

// A ResultStatus is the scheduler's decision on a result.
type ResultStatus int

const (
	First    ResultStatus = iota // it is the job's
	Repeated                     // it has the bytes of the first
	Differs                      // it has other bytes than the first
	Unwanted                     // nobody waits for it, or nothing of its worker counts
)

// Result takes a worker's result of a job by its digest.
func (s *Scheduler) Result(now time.Duration, name Hash, by string, digest Hash) ResultStatus {
	w, t := s.workers[by], s.jobs[name]
	if w != nil {
		w.heard = now
	}
	switch {
	case t == nil || w != nil && (w.refused || w.suspect):
		s.Late++
		return Unwanted
	case t.done && digest == t.digest:
		s.Again++
		return Repeated
	case t.done:
		s.Differed++
		return Differs
	}
	for _, x := range t.tries {
		if x.worker == by {
			t.took.add(now - x.began)
		}
	}
	s.settle(t)
	t.done, t.digest, t.worker = true, digest, by
	s.left--
	s.Done++
	return First
}

// Of is whose result counts for a job; "": nobody's.
func (s *Scheduler) Of(name Hash) string {
	if t := s.jobs[name]; t != nil && t.done {
		return t.worker
	}
	return ""
}

// Refuse lets nothing of a worker count, neither its results for these jobs nor later ones. The jobs that are open
// again are returned, of which the caller offers all.
func (s *Scheduler) Refuse(now time.Duration, by string, order []Hash) (again []Hash) {
	w := s.seen(now, by)
	if !w.refused && !w.suspect {
		s.out++
	}
	w.refused, w.suspect = true, false
	for _, x := range s.triesOf(by) {
		s.drop(x)
		again = s.offerAgain(now, x.task, again)
	}
	for _, name := range order {
		if t := s.jobs[name]; t != nil && t.done && t.worker == by {
			t.done, t.digest, t.worker = false, Hash{}, ""
			s.left++
			again = s.offerAgain(now, t, again)
		}
	}
	return again
}

// Suspect lets nothing of a worker count until Trust or Refuse. Its job is offered again.
func (s *Scheduler) Suspect(now time.Duration, by string) (again []Hash) {
	w := s.seen(now, by)
	if w.refused || w.suspect {
		return nil
	}
	w.suspect = true
	s.out++
	for _, x := range s.triesOf(by) {
		s.drop(x)
		again = s.offerAgain(now, x.task, again)
	}
	return again
}

// Trust takes a suspicion back.
func (s *Scheduler) Trust(by string) {
	if w := s.workers[by]; w != nil && w.suspect {
		w.suspect = false
		s.out--
	}
}
