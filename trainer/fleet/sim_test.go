package fleet

import (
	"container/heap"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// A world is a fleet on virtual time. The scheduler is the real one; workers, the queue, failures, machines of
// different speed and the way of the weights are played. Batch i is rolled by the weights after batch i - lag.
type world struct {
	workers, jobs int // jobs a batch
	base          time.Duration
	sigma, cap    float64 // of the lengths of jobs: log-normal, cut
	train         time.Duration
	lag           int
	rules         Rules
	between       time.Duration // failures of a worker; 0: none
	slow          float64       // the share of workers that are five times slower
	batches, warm int
	seed          uint64
	deaf          float64       // the share of workers' messages that is lost
	wire          time.Duration // of a result on the trainer's wire, one after another

	rnd     *rand.Rand
	now     time.Duration
	events  happenings
	n       int
	sched   *Scheduler
	speed   []float64
	epoch   []int // of a worker: it has failed so often
	alive   []bool
	at      []int // the job that a worker is at; -1: none
	has     []int // the version of its weights
	length  []float64
	queue   [2][]int
	issued  int
	open    []int // jobs of a batch that are not done
	trained int
	busy    bool
	ends    []time.Duration
	planned time.Duration // when time is looked at next
	taken   time.Duration // until when the trainer's wire is taken
}

// happening is an event.
type happening struct {
	at time.Duration
	n  int
	do func()
}

type happenings []happening

func (h happenings) Len() int { return len(h) }
func (h happenings) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].n < h[j].n
}
func (h happenings) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *happenings) Push(x any)   { *h = append(*h, x.(happening)) }
func (h *happenings) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func (w *world) after(d time.Duration, do func()) {
	w.n++
	heap.Push(&w.events, happening{w.now + d, w.n, do})
}

func jobName(i int) (h Hash) {
	binary.LittleEndian.PutUint64(h[:], uint64(i)+1)
	return h
}

func jobOf(h Hash) int { return int(binary.LittleEndian.Uint64(h[:])) - 1 }

func workerName(i int) string { return fmt.Sprintf("w%04d", i) }

// run plays the batches, and returns how much of the workers' capacity went into results, from batch warm on.
func (w *world) run(t *testing.T) (useful float64) {
	t.Helper()
	w.rnd = rand.New(rand.NewPCG(w.seed, 1))
	w.sched = NewScheduler(w.rules)
	w.open = make([]int, w.batches+w.lag+1)
	total := 0.0
	for i := range w.workers {
		speed := math.Exp(w.rnd.NormFloat64() * 0.15)
		if float64(i) < w.slow*float64(w.workers) {
			speed /= 5
		}
		total += speed
		w.speed, w.epoch, w.alive = append(w.speed, speed), append(w.epoch, 0), append(w.alive, true)
		w.at, w.has = append(w.at, -1), append(w.has, -1)
		w.beats(i, 0)
		if w.between > 0 {
			w.fails(i)
		}
	}
	w.issue()
	for w.events.Len() > 0 && w.trained < w.batches {
		h := heap.Pop(&w.events).(happening)
		w.now = h.at
		h.do()
		w.look()
	}
	if w.trained < w.batches {
		t.Fatalf("%d of %d batches: nothing happens any more", w.trained, w.batches)
	}
	first, last := w.warm, w.batches-1
	work := 0.0
	for _, l := range w.length[(first+1)*w.jobs : (last+1)*w.jobs] {
		work += l
	}
	return work / total / (w.ends[last] - w.ends[first]).Seconds()
}

// look does the work that the scheduler has due, and plans the next time.
func (w *world) look() {
	offer, here := w.sched.Due(w.now)
	w.urge(offer)
	for _, name := range here {
		w.after(w.base, func() { w.result(jobOf(name), Here) })
	}
	w.feed()
	if at, ok := w.sched.Next(); ok && (w.planned <= w.now || at < w.planned) {
		w.planned = max(at, w.now+time.Millisecond)
		w.after(w.planned-w.now, func() {})
	}
}

func (w *world) urge(names []Hash) {
	for _, name := range names {
		w.queue[0] = append(w.queue[0], jobOf(name))
	}
}

// issue offers the batches whose weights are there.
func (w *world) issue() {
	for w.issued < w.batches && max(0, w.issued-w.lag) <= w.trained {
		for range w.jobs {
			n := len(w.length)
			mean := w.base.Seconds()
			w.length = append(w.length, min(w.cap*mean, mean*math.Exp(w.rnd.NormFloat64()*w.sigma-w.sigma*w.sigma/2)))
			w.sched.Add(w.now, jobName(n), "")
			w.queue[1] = append(w.queue[1], n)
		}
		w.open[w.issued] = w.jobs
		w.issued++
	}
}

// feed lets idle workers take waiting jobs.
func (w *world) feed() {
	for i := range w.at {
		if !w.alive[i] || w.at[i] >= 0 {
			continue
		}
		job := -1
		for q := range w.queue {
			if len(w.queue[q]) > 0 {
				job, w.queue[q] = w.queue[q][0], w.queue[q][1:]
				break
			}
		}
		if job < 0 {
			return
		}
		w.begin(i, job)
	}
}

func (w *world) hears() bool { return w.deaf == 0 || w.rnd.Float64() >= w.deaf }

// begin lets a worker begin a job, once it has the weights.
func (w *world) begin(i, job int) {
	epoch := w.epoch[i]
	w.at[i] = job
	if w.hears() {
		useful, again := w.sched.Begun(w.now, jobName(job), workerName(i))
		w.urge(again)
		if !useful {
			w.at[i] = -1
			return
		}
	}
	took := time.Duration(w.length[job] / w.speed[i] * float64(time.Second))
	if need := max(0, job/w.jobs-w.lag); w.has[i] != need {
		levels := max(1, math.Ceil(math.Log(float64(w.workers))/math.Log(8)))
		took += time.Duration(levels * 8 * 64e6 / 1.25e9 * float64(time.Second))
		w.has[i] = need
	}
	w.after(took, func() {
		if w.epoch[i] != epoch || w.at[i] != job {
			return
		}
		w.at[i] = -1
		if w.hears() {
			w.arrives(job, workerName(i))
		}
	})
}

// arrives takes a result once it has come over the wire, while its worker goes on.
func (w *world) arrives(job int, by string) {
	if w.wire == 0 {
		w.result(job, by)
		return
	}
	w.sched.Coming(w.now, jobName(job), by)
	w.taken = max(w.taken, w.now) + w.wire
	w.after(w.taken-w.now, func() { w.result(job, by) })
}

// result takes a result, and trains when a batch is whole.
func (w *world) result(job int, by string) {
	if w.sched.Result(w.now, jobName(job), by, Hash{}) != First {
		return
	}
	w.sched.Remove(jobName(job))
	for i, at := range w.at { // withdrawn
		if at == job && w.alive[i] {
			w.at[i] = -1
		}
	}
	w.open[job/w.jobs]--
	w.step()
}

func (w *world) step() {
	if w.busy || w.trained >= w.issued || w.open[w.trained] > 0 {
		return
	}
	w.busy = true
	w.after(w.train, func() {
		w.busy = false
		w.trained++
		w.ends = append(w.ends, w.now)
		w.issue()
		w.step()
	})
}

// beats lets a worker send signs of life for its job, until it fails.
func (w *world) beats(i, epoch int) {
	if w.epoch[i] != epoch {
		return
	}
	if w.hears() {
		w.sched.Hello(w.now, workerName(i))
		if w.at[i] >= 0 {
			w.sched.Beat(w.now, jobName(w.at[i]), workerName(i))
		}
	}
	w.after(w.rules.Beats(), func() { w.beats(i, epoch) })
}

// fails lets a worker fail now and then; it is back two minutes later.
func (w *world) fails(i int) {
	w.after(time.Duration(w.rnd.ExpFloat64()*float64(w.between)), func() {
		w.epoch[i]++
		w.alive[i], w.at[i] = false, -1
		w.after(2*time.Minute, func() {
			w.alive[i], w.has[i] = true, -1
			w.beats(i, w.epoch[i])
			w.fails(i)
		})
	})
}
