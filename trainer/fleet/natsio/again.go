package natsio

import (
	"context"
	"fmt"
	"time"
)

// tries is how often something is asked of a server that does not do it.
const tries = 5

// again does something, and makes what is missing and does it once more where it fails.
func (h *Hub) again(ctx context.Context, what string, do func(ctx context.Context) error) error {
	return h.againWithin(ctx, 30*time.Second, what, do)
}

// againWithin is again, of something that may take so long each time.
func (h *Hub) againWithin(ctx context.Context, limit time.Duration, what string, do func(ctx context.Context) error) error {
	var err error
	for n := range tries {
		if n > 0 {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(time.Duration(n*n) * 100 * time.Millisecond):
			}
			_ = h.furnish(ctx) // what it cannot make fails below
		}
		limited, cancel := context.WithTimeout(ctx, limit)
		err = do(limited)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return fmt.Errorf("%s, tried %d times: %w", what, tries, err)
}
