package call

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// A Policy says how long, how often and how many. A zero field means its default.
type Policy struct {
	Timeout time.Duration // of one try: 60 s
	Longer  time.Duration // each try may last than the one before
	Tries   int           // 4
	Pause   time.Duration // before the second try: 500 ms, doubled each time
	Longest time.Duration // pause: 10 s
	AtOnce  int           // calls beside each other: 8
	Bytes   int64         // of a reply: 4 MiB
}

func (p Policy) filled() Policy {
	or := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	or(&p.Timeout, 60*time.Second)
	or(&p.Pause, 500*time.Millisecond)
	or(&p.Longest, 10*time.Second)
	if p.Tries <= 0 {
		p.Tries = 4
	}
	if p.AtOnce <= 0 {
		p.AtOnce = 8
	}
	if p.Bytes <= 0 {
		p.Bytes = 4 << 20
	}
	return p
}

// limit is how long try n may last.
func (p Policy) limit(n int) time.Duration { return p.Timeout + time.Duration(n-1)*p.Longer }

// A Caller makes calls under a policy.
type Caller struct {
	policy Policy
	free   chan struct{}
	cache  *Cache
}

// NewCaller makes a caller; cache may be nil.
func NewCaller(p Policy, cache *Cache) *Caller {
	p = p.filled()
	return &Caller{p, make(chan struct{}, p.AtOnce), cache}
}

// Policy returns the caller's limits.
func (c *Caller) Policy() Policy { return c.policy }

// Passing marks a failure that another try may not meet.
func Passing(err error) error {
	if err == nil {
		return nil
	}
	return passing{err}
}

type passing struct{ error }

func (p passing) Unwrap() error { return p.error }

// errTimeout is why a try that took too long failed.
var errTimeout = errors.New("no answer in time")

// A Reader reads an answer. One that cannot be used is an error; one that is not whole can be
// used, but not remembered.
type Reader func(reply []byte) (whole bool, err error)

// Do makes a call, or remembers its answer: request is everything that the answer depends on. An
// answer that cannot be read is not asked for again: a server that answers nonsense has answered.
func (c *Caller) Do(ctx context.Context, request []byte, try func(ctx context.Context) ([]byte, error), read Reader) error {
	if reply, ok := c.cache.get(request); ok {
		if whole, err := read(reply); whole && err == nil {
			return nil
		}
	}
	select {
	case c.free <- struct{}{}:
		defer func() { <-c.free }()
	case <-ctx.Done():
		return ctx.Err()
	}
	reply, err := c.tried(ctx, try)
	if err != nil {
		return err
	}
	whole, err := read(reply)
	if err != nil || !whole {
		return err
	}
	return c.cache.put(request, reply)
}

func (c *Caller) tried(ctx context.Context, try func(ctx context.Context) ([]byte, error)) ([]byte, error) {
	for n := 1; ; n++ {
		limited, done := context.WithTimeoutCause(ctx, c.policy.limit(n), errTimeout)
		reply, err := try(limited)
		if err != nil && ctx.Err() == nil && context.Cause(limited) == errTimeout {
			late := fmt.Errorf("%w (%v)", errTimeout, c.policy.limit(n))
			if w := (wrote{}); errors.As(err, &w) {
				late = wrote{late, w.said}
			}
			err = Passing(late)
		}
		done()
		var again passing
		switch {
		case err == nil:
			return reply, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !errors.As(err, &again):
			return nil, err
		case n == c.policy.Tries:
			return nil, fmt.Errorf("failed %d times, at last: %w", n, err)
		}
		if err := wait(ctx, c.pause(n)); err != nil {
			return nil, err
		}
	}
}

// pause after try n: doubled each time, and between half and all of it, so that callers that
// failed together do not come back together.
func (c *Caller) pause(n int) time.Duration {
	d := c.policy.Longest
	if n < 30 && c.policy.Pause < d>>(n-1) {
		d = c.policy.Pause << (n - 1)
	}
	return d/2 + rand.N(d/2+1)
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Spread calls f(0) to f(n-1), atOnce of them in parallel, and waits for all.
func Spread(n, atOnce int, f func(i int)) {
	var all sync.WaitGroup
	free := make(chan struct{}, max(1, atOnce))
	for i := range n {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			f(i)
		})
	}
	all.Wait()
}
