package natsio

import (
	"context"
	"slices"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// Who is dismissed is dismissed in all of its roles, which have a name each and one key.

// Dismiss is fleet.Hub's. A server of somebody else's knows no keys of workers: there the names that said one key are
// one worker's.
func (h *Hub) Dismiss(_ context.Context, worker string) (err error) {
	if err := h.nc.Publish(h.subject(dismiss+worker), nil); err != nil {
		return err
	}
	var others []string
	if h.revoke == nil {
		others = h.alike(worker)
	} else if others, err = h.revoke(worker); err != nil {
		return err
	}
	for _, other := range others {
		if err := h.nc.Publish(h.subject(dismiss+other), nil); err != nil {
			return err
		}
		for _, box := range h.boxes {
			box.Put(fleet.Event{Kind: fleet.Dismissed, Worker: other, Why: "it is worker " + worker + " in another role"})
		}
	}
	return nil
}

// alike are the other names that said a worker's key.
func (h *Hub) alike(worker string) (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for other, key := range h.keys {
		if other != worker && key == h.keys[worker] {
			all = append(all, other)
		}
	}
	slices.Sort(all)
	return all
}
