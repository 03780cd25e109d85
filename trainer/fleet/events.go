package fleet

import (
	"slices"
	"time"
)

// What the scheduler hears of a job under way.

// Begun hears that a worker took a copy. It is of no use where the job is done or unknown: then the caller withdraws
// it. What a worker that was refused took is offered again.
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

// Beat hears that a worker is still at a job.
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

// Coming hears that a worker has done a job, and that its result is on its way: the worker is free.
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

// Gone hears that a result did not come, or is of no use.
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

// Failed hears that a worker could not do a job.
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
