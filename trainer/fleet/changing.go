package fleet

import (
	"context"
	"sync"
	"time"
)

// changing is a context that a model is opened with, and that stands for another one in each roll: so a single
// roll can be stopped.
type changing struct {
	mu  sync.Mutex
	now context.Context
}

func newChanging() *changing { return &changing{now: context.Background()} }

// be stands for ctx from now on.
func (c *changing) be(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = ctx
}

func (c *changing) is() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *changing) Deadline() (time.Time, bool) { return c.is().Deadline() }
func (c *changing) Done() <-chan struct{}       { return c.is().Done() }
func (c *changing) Err() error                  { return c.is().Err() }
func (c *changing) Value(key any) any           { return c.is().Value(key) }
