package natsio

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// Who is dismissed is dismissed in all of its roles, which have a name each and one key.

// Dismiss implements fleet.Hub.
func (h *Hub) Dismiss(_ context.Context, worker string) error {
	key := h.roster.keyOf(worker)
	others, err := h.roster.revoke(worker)
	if err != nil {
		return err
	}
	for _, name := range append([]string{worker}, others...) {
		if err := h.nc.Publish(h.subject(dismiss+name), h.seal(ofDismiss, []byte(key))); err != nil {
			return err
		}
		if name != worker {
			h.tells(name, "it is worker "+worker+" in another role")
		}
	}
	return nil
}

// tells lets the fleets of all roles know that a worker was dismissed.
func (h *Hub) tells(worker, why string) {
	for _, box := range h.boxes {
		box.Put(fleet.Event{Kind: fleet.Dismissed, Worker: worker, Why: why})
	}
}

// revoked takes back the key of a worker, for somebody who has the trainer's.
func (h *Hub) revoked(m *nats.Msg) {
	s, err := unseal(h.public(), ofRevoke, m.Data)
	if err != nil || s.session != h.session {
		return
	}
	name := string(s.text)
	text := "there is no worker of this name"
	if h.roster.keyOf(name) != "" {
		text = ""
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := h.Dismiss(ctx, name); err != nil {
			text = err.Error()
		} else {
			h.tells(name, "its key was revoked")
		}
	}
	_ = h.answer(m, h.seal(ofRevoke, []byte(text))) // who asked sees the join file
}
