package natsio

import (
	"context"
	"fmt"
	"time"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
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

// mend makes what workers need and is not there: now and then, and, once a second at most, when one failed.
func (h *Hub) mend() {
	for {
		select {
		case <-h.boxOf(fleet.Rolls).Closed():
			return
		case <-h.broken:
		case <-time.After(looks):
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		_ = h.furnish(ctx) // if it is not there afterwards, the next worker fails
		cancel()
		time.Sleep(time.Second)
	}
}

// furnish makes streams and stores that are not there, and fills in what the trainer has published.
func (h *Hub) furnish(ctx context.Context) error {
	for _, s := range h.streams() {
		s.Replicas = h.replicas
		if _, err := h.js.CreateOrUpdateStream(ctx, s); err != nil {
			return fmt.Errorf("making the stream %s: %w", s.Name, err)
		}
	}
	for _, priority := range priorities() {
		if _, err := h.js.CreateOrUpdateConsumer(ctx, h.of(work), h.consumer(priority)); err != nil {
			return fmt.Errorf("making the queue of %s jobs: %w", priority, err)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, data := range h.put {
		if err := h.publish(ctx, data); err != nil {
			return err
		}
	}
	return nil
}
