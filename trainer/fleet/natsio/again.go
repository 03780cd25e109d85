package natsio

import (
	"context"
	"fmt"
	"maps"
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
			h.breaks()         // what was published is missing there, too
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
		h.thin(ctx)
		cancel()
		h.refill()
		time.Sleep(time.Second)
	}
}

// breaks says that something may be missing.
func (h *Hub) breaks() {
	select {
	case h.broken <- struct{}{}:
	default:
	}
}

// refill publishes again what the server has lost, each blob within its own limit. Jobs are offered meanwhile.
func (h *Hub) refill() {
	h.mu.Lock()
	all := maps.Clone(h.put)
	h.mu.Unlock()
	for name, data := range all {
		h.mu.Lock()
		_, wanted := h.put[name]
		h.mu.Unlock()
		if !wanted { // it was dropped meanwhile
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), fleet.Blob{Size: int64(len(data))}.Limit())
		err := h.publish(ctx, data)
		cancel()
		if err != nil {
			return // the server has gone again
		}
	}
}

// thin empties the list of results that are kept for a trainer to come where it is nearly full: those of this run are
// few, and what is not there is done again.
func (h *Hub) thin(ctx context.Context) {
	s, err := h.js.Stream(ctx, h.of(done))
	if err != nil {
		return
	}
	if info, err := s.Info(ctx); err == nil && info.State.Bytes > mostDone/2 {
		_ = s.Purge(ctx) // it is tried again
	}
}

// furnish makes streams and queues that are not there.
func (h *Hub) furnish(ctx context.Context) error {
	for _, s := range h.streams(h.room) {
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
	return nil
}
