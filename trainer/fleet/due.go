package fleet

import (
	"container/heap"
	"slices"
	"time"
)

// What time alone brings about: leases that end, copies that were lost, hedges, and jobs that are left to the
// trainer.

// Due says which jobs to offer now, and which the trainer has to do itself.
func (s *Scheduler) Due(now time.Duration) (offer, here []Hash) {
	offer = s.expire(now, nil)
	offer = s.lost(now, offer)
	offer = s.hedge(now, offer)
	s.hang(now)
	return offer, s.wornOut()
}

// expire ends leases of workers that were not heard of.
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

// oldest is the try that is under way for longest, of those that no other stands beside.
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

// looksAt says when to look whether a worker hangs: what is tolerated changes with the median.
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

// Next is when Due has something to say, if nothing is heard until then; false: never.
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

// A deadline is when a try, or a worker, must have been heard of.
type deadline struct {
	at     time.Duration
	try    *try    // nil: of the worker
	worker *worker // nil: of the try
}

// deadlines are a heap. They are not moved when somebody is heard of, but looked at again when they come up.
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
