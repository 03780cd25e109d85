package fleet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// What a fleet hears, and what it does about it.

// loop hears workers while a batch is open.
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

// round does what time brings about, and says when to look again.
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

// hear takes a worker's message.
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

// shown is what a worker says in so many letters and one line: nobody speaks as the trainer.
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
}

// notify lets who waits for the job look again.
func (j *job) notify() {
	for _, b := range j.of {
		b.notify()
	}
}

// impure reports whether a job may have other bytes when it is done again.
func (j *job) impure() bool { return j.of[0].Impure }

// finished is told of a job that has a result.
func (f *Fleet) finished(ctx context.Context, j *job) error {
	for _, b := range j.of {
		b.left--
		b.done++
		b.own.unless(j.name)
		b.notify()
	}
	return f.Hub.Withdraw(ctx, j.name)
}

// reopened is told of a job whose result does not count any more.
func (j *job) reopened() {
	j.payload = nil
	for _, b := range j.of {
		b.left++
		b.done--
	}
}
