package fleet

import "time"

// A Verdict is what a result is worth.
type Verdict int

const (
	First    Verdict = iota // it is the job's
	Repeated                // it has the bytes of the first
	Differs                 // it has other bytes than the first
	Unasked                 // nobody waits for it, or nothing of its worker counts
)

// Result hears that a worker has done a job, with a result of that digest.
func (s *Scheduler) Result(now time.Duration, name Hash, by string, digest Hash) Verdict {
	w, t := s.workers[by], s.jobs[name]
	if w != nil {
		w.heard = now
	}
	switch {
	case t == nil || w != nil && (w.refused || w.suspect):
		s.Late++
		return Unasked
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

// Refuse lets nothing of a worker count, neither what it has done of these jobs nor what it will say. The jobs that
// are open again are returned, of which the caller offers all.
func (s *Scheduler) Refuse(now time.Duration, by string, order []Hash) (again []Hash) {
	w := s.seen(now, by)
	if !w.refused && !w.suspect {
		s.out++
	}
	w.refused, w.suspect = true, false
	for _, x := range sortedTries(w.tries) {
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

// Suspect lets nothing of a worker count until Trust or Refuse. What it is at is offered again.
func (s *Scheduler) Suspect(now time.Duration, by string) (again []Hash) {
	w := s.seen(now, by)
	if w.refused || w.suspect {
		return nil
	}
	w.suspect = true
	s.out++
	for _, x := range sortedTries(w.tries) {
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
