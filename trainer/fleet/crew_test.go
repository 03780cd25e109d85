package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// A trainer and its workers inside one process, for tests.

// Fleets of goroutines on virtual time (testing/synctest): the real loop, the real workers, and a hub that loses
// messages as the test likes.

// jobsOf are n jobs of two samples.
func jobsOf(n int) (all []Job) {
	for i := range n {
		all = append(all, Job{Keys: []Keys{{Prompt: i, Samples: 2}}})
	}
	return all
}

// answer is the right result of a job.
func answer(j Job) []byte { return fmt.Appendf(nil, "the result of prompt %d", j.Keys[0].Prompt) }

// takes is a worker's, which needs a time for a job that grows with its prompt.
func takes(ctx context.Context, j Job) ([]byte, error) {
	if !sleep(ctx, time.Second+time.Duration(j.Keys[0].Prompt%7)*100*time.Millisecond) {
		return nil, ctx.Err()
	}
	return answer(j), nil
}

// crew is a fleet with workers, which end with the test.
type crew struct {
	*testing.T
	hub  *Inside
	f    *Fleet
	said []string
	log  []Entry
	work sync.WaitGroup
}

func newCrew(t *testing.T, o Options) *crew {
	c := &crew{T: t, hub: NewInside()}
	o.Hub = c.hub
	if o.Rules == (Rules{}) {
		o.Rules = Rules{Lease: 5 * time.Second, Hedge: 1.5, Silence: 4 * time.Second, Tries: 5}
	}
	o.Logf = func(format string, args ...any) { c.said = append(c.said, fmt.Sprintf(format, args...)) }
	o.Log = func(e Entry) { c.log = append(c.log, e) }
	c.f = New(o)
	return c
}

// join lets a worker work until the returned function stops it; killed, it says nothing more.
func (c *crew) join(name string, do Doing) (stop, kill func()) {
	ctx, cancel := context.WithCancel(context.Background())
	l := &mortal{Link: c.hub.Link(name)}
	w := Worker{Name: name, Link: l, Beat: time.Second, Do: do, Logf: func(string, ...any) {}}
	c.work.Go(func() {
		if err := w.Run(ctx); err != nil && !errors.Is(err, ErrDismissed) {
			c.Errorf("worker %s: %v", name, err)
		}
	})
	return cancel, func() {
		l.kill()
		cancel()
	}
}

// mortal is a link of a worker that can be killed.
type mortal struct {
	Link
	mu   sync.Mutex
	dead bool
}

func (m *mortal) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
}

func (m *mortal) Send(ctx context.Context, e Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return nil
	}
	return m.Link.Send(ctx, e)
}

// anything can be a result.
func anything(Job, []byte) error { return nil }

// do has jobs done, and checks the results.
func (c *crew) do(n int) {
	c.Helper()
	jobs := jobsOf(n)
	told := 0
	got, err := c.f.Do(context.Background(), Work{Jobs: jobs, Here: takes, Progress: func(done int) { told = done }, Check: func(j Job, payload []byte) error {
		if !bytes.HasPrefix(payload, []byte("the result")) {
			return errors.New("it is none")
		}
		return nil
	}})
	if err != nil {
		c.Fatal(err)
	}
	for i, j := range jobs {
		if !bytes.Equal(got[i], answer(j)) {
			c.Errorf("job %d: %q", i, got[i])
		}
	}
	if told != n || len(c.log) < n {
		c.Errorf("%d of %d jobs were told, and %d written down", told, n, len(c.log))
	}
}

func (c *crew) says(what string) {
	c.Helper()
	if !strings.Contains(strings.Join(c.said, "\n"), what) {
		c.Errorf("it does not say %q:\n%s", what, strings.Join(c.said, "\n"))
	}
}

// by is how many jobs a worker did.
func (c *crew) by(name string) (n int) {
	for _, e := range c.log {
		if e.Worker == name && e.Dismissed == "" {
			n++
		}
	}
	return n
}

func (c *crew) end(stops ...func()) {
	for _, stop := range stops {
		stop()
	}
	c.work.Wait()
	if err := c.hub.Close(); err != nil {
		c.Error(err)
	}
}
