package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// A Worker takes jobs and does them, until it is told to stop.
type Worker struct {
	Name  string
	Link  Link
	About About
	Beat  time.Duration // how often it says that it is there
	// Do does a job, and stops when ctx ends. An error of type Unfit ends the worker.
	Do  func(ctx context.Context, j Job) (payload []byte, err error)
	Say func(format string, args ...any)
	// Moved is when the job under way was last seen to go on; nil: nobody sees. A worker whose job does not go on for
	// Hang falls silent, so that others do the job: a device that hangs does not keep its process from speaking.
	Moved func() time.Time
	Hang  time.Duration // 0: it never falls silent

	since atomic.Int64 // when the job under way was begun, in nanoseconds since 1970; 0: there is none
	hung  atomic.Bool
}

// hangs reports whether the job under way does not go on.
func (w *Worker) hangs() bool {
	since := time.Unix(0, w.since.Load())
	if w.Moved == nil || w.Hang == 0 || w.since.Load() == 0 || time.Since(since) < w.Hang || time.Since(w.Moved()) < w.Hang {
		w.hung.Store(false)
		return false
	}
	if !w.hung.Swap(true) {
		w.Say("warning: nothing of the job under way has moved for %v: this worker falls silent, and the trainer gives the job to others\nhint: where the device hangs, end this worker and start it anew", w.Hang)
	}
	return true
}

// Unfit is why a worker can do none of a run's jobs.
type Unfit struct{ Err error }

func (u Unfit) Error() string { return u.Err.Error() }
func (u Unfit) Unwrap() error { return u.Err }

// Run works until ctx ends, the run is over (ErrOver) or the worker is dismissed.
// What it is at when ctx ends is given back.
func (w *Worker) Run(ctx context.Context) error {
	hello, quiet := context.WithCancel(ctx)
	defer quiet()
	go w.hellos(hello)
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = w.Link.Say(last, Event{Kind: Bye}) // a trainer that does not hear it misses the worker soon
	}()
	failed := 0
	for {
		j, err := w.Link.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrOver):
			return err
		case err != nil:
			return fmt.Errorf("waiting for a job: %w", err)
		}
		err = w.one(ctx, j)
		var unfit Unfit
		var refusal Refusal
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &unfit):
			return unfit.Err
		case errors.As(err, &refusal):
			w.Say("job %s is refused: %v", j, err)
			if !sleep(ctx, w.Beat/16) { // another may take it
				return nil
			}
		case err != nil:
			w.Say("job %s failed: %v", j, err)
			failed++
			if !sleep(ctx, time.Second<<min(failed-1, 6)) {
				return nil
			}
		default:
			failed = 0
		}
	}
}

// sleep reports whether ctx still runs afterwards.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// hellos says again and again that the worker is there.
func (w *Worker) hellos(ctx context.Context) {
	for {
		if !w.hangs() {
			_ = w.Link.Say(ctx, Event{Kind: Hello, About: &w.About}) // the next one may come through
		}
		if !sleep(ctx, w.Beat) {
			return
		}
	}
}

// one does a job, and says so.
func (w *Worker) one(ctx context.Context, j Job) error {
	name := j.Name()
	if err := w.Link.Say(ctx, Event{Kind: Begun, Job: name}); err != nil {
		return err
	}
	began := time.Now()
	at, stop := context.WithCancel(ctx)
	defer stop()
	go w.beats(at, name, stop)
	w.since.Store(began.UnixNano())
	payload, err := w.Do(at, j)
	w.since.Store(0)
	if err == nil {
		err = w.deliver(at, payload, Event{Kind: Done, Job: name, Bytes: len(payload), Seconds: time.Since(began).Seconds()})
	}
	if at.Err() != nil {
		return ctx.Err() // it is not needed any more
	}
	if err == nil {
		return nil
	}
	stop()
	return errors.Join(err, w.Link.Say(ctx, Event{Kind: Failed, Job: name, Why: shown(err.Error(), 2000)}))
}

// mostDeliveries is how often a result is brought, in some two minutes.
const mostDeliveries = 9

// deliver brings a result, again and again while the trainer is out of reach, for it took long to make.
func (w *Worker) deliver(ctx context.Context, payload []byte, e Event) (err error) {
	for n := range mostDeliveries {
		if n > 0 && !sleep(ctx, time.Second<<min(n-1, 5)) {
			return ctx.Err()
		}
		var b Blob
		if b, err = w.Link.Put(ctx, payload); err != nil {
			continue
		}
		e.Payload = b.Hash
		if err = w.Link.Say(ctx, e); err == nil {
			return nil
		}
	}
	return fmt.Errorf("bringing the result, tried %d times: %w", mostDeliveries, err)
}

// beats says that a job is under way, and stops it when it is not needed.
func (w *Worker) beats(ctx context.Context, name Hash, stop context.CancelFunc) {
	withdrawn := w.Link.Withdrawn(name)
	for {
		select {
		case <-ctx.Done():
			return
		case <-withdrawn:
			stop()
			return
		case <-time.After(w.Beat):
			if !w.hangs() {
				_ = w.Link.Say(ctx, Event{Kind: Beat, Job: name}) // the next one may come through
			}
		}
	}
}
