package cpu

import (
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// pool runs the tasks of parallel-fors on a fixed set of goroutines. Several may be under way at once, each with a
// caller of its own: a worker takes tasks of the first one that has any left, so that a caller's work alone, between
// two of its parallel-fors, is another one's gain.
//
// Tasks are taken from an atomic counter, so a descheduled worker delays only the
// task it holds; the caller takes tasks too, and waits only for those that were
// started. Idle workers look for work for a moment, then for a while longer between
// yields to other programs, and then park: one that parked misses about 50 us of the next
// job. Looking that long without yields makes two runs on one machine 4 to 34 % slower.
type pool struct {
	threads int
	open    [8]atomic.Pointer[job] // those under way, in any place; further ones are their callers' alone
	parked  atomic.Int32
	wake    chan struct{}
	stop    chan struct{}
	once    sync.Once
}

// job is one parallel-for.
type job struct {
	n       int32
	next    atomic.Int32
	pending sync.WaitGroup // tasks not finished
	left    atomic.Int32   // the same, for a short look before waiting
	task    func(int)
	failure atomic.Pointer[any]
}

// spin is how long an idle worker, or a waiting caller, looks for itself alone. A worker then looks for patience
// between yields, and a caller waits.
const spin = 15 * time.Microsecond

func newPool(threads int) *pool {
	p := &pool{threads: threads, wake: make(chan struct{}, threads), stop: make(chan struct{})}
	for range threads - 1 {
		go p.work()
	}
	return p
}

func (p *pool) close() { p.once.Do(func() { close(p.stop) }) }

// run calls task(0) ... task(n-1), in no order, and returns when all are done.
func (p *pool) run(n int, task func(int)) {
	if p.threads == 1 || n <= 1 {
		for i := range n {
			task(i)
		}
		return
	}
	j := &job{n: int32(n), task: task}
	j.pending.Add(n)
	j.left.Store(int32(n))
	place := p.enter(j)
	for range min(int(p.parked.Load()), n-1) {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
	j.take()
	if place != nil {
		place.Store(nil) // all tasks have begun
	}
	for t := time.Now(); j.left.Load() > 0; {
		if time.Since(t) > spin {
			j.pending.Wait()
			break
		}
	}
	if f := j.failure.Load(); f != nil {
		panic(*f)
	}
}

// enter shows a job to workers; nil where no place is free.
func (p *pool) enter(j *job) *atomic.Pointer[job] {
	for i := range p.open {
		if p.open[i].Load() == nil && p.open[i].CompareAndSwap(nil, j) {
			return &p.open[i]
		}
	}
	return nil
}

// some is a job with tasks to start.
func (p *pool) some() *job {
	for i := range p.open {
		if j := p.open[i].Load(); j != nil && j.next.Load() < j.n {
			return j
		}
	}
	return nil
}

// take runs tasks until none is left to start.
func (j *job) take() {
	for {
		i := j.next.Add(1) - 1
		if i >= j.n {
			return
		}
		j.one(int(i))
	}
}

func (j *job) one(i int) {
	defer func() {
		if r := recover(); r != nil {
			first := r // a copy: the address of r would take memory in every task
			j.failure.CompareAndSwap(nil, &first)
		}
		j.left.Add(-1)
		j.pending.Done()
	}()
	j.task(i)
}

func (p *pool) work() {
	debug.SetPanicOnFault(true) // operands may lie in a mapped file, which somebody may cut: see job.one
	for {
		if j := p.next(); j != nil {
			j.take()
			continue
		}
		p.parked.Add(1)
		if p.some() == nil {
			select {
			case <-p.wake:
			case <-p.stop:
				return
			}
		}
		p.parked.Add(-1)
	}
}

// next looks for a job for a while.
func (p *pool) next() *job {
	for t := time.Now(); ; {
		for range 64 {
			if j := p.some(); j != nil {
				return j
			}
		}
		switch looked := time.Since(t); {
		case looked > patience:
			return nil
		case looked > spin:
			yield()
		}
	}
}

// rows calls f for pieces [lo, hi) of [0, n), each of grain rows or a few more; it
// stays on the caller's goroutine where there is one piece.
func (p *pool) rows(n, grain int, f func(lo, hi int)) {
	if n == 0 {
		return
	}
	grain = max(grain, 1)
	if p.threads == 1 || n <= grain {
		f(0, n)
		return
	}
	pieces := (n + grain - 1) / grain
	p.run(pieces, func(i int) { f(i*n/pieces, (i+1)*n/pieces) })
}
