package natsio

import (
	"context"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// Workers of other roles than rolling: a queue and a mailbox each.

// queues are those that workers of a role take from: the first without waiting.
func queues(r fleet.Role) []string {
	switch r {
	case fleet.Scorers:
		return []string{score}
	case fleet.Judges:
		return []string{judge}
	}
	return []string{urgent, plain}
}

// mailboxes are one a role.
func mailboxes() map[fleet.Role]*fleet.Mailbox {
	return map[fleet.Role]*fleet.Mailbox{fleet.Rolls: fleet.NewMailbox(), fleet.Scorers: fleet.NewMailbox(), fleet.Judges: fleet.NewMailbox()}
}

// boxOf is where what workers of a role say is kept; nil: there is no such role.
func (h *Hub) boxOf(r fleet.Role) *fleet.Mailbox { return h.boxes[r] }

// As is the hub of workers of a role. It ends with this one.
func (h *Hub) As(r fleet.Role) fleet.Hub { return part{h, r} }

type part struct {
	*Hub
	role fleet.Role
}

func (p part) Events() <-chan fleet.Event                   { return p.boxOf(p.role).Out() }
func (p part) Take(ctx context.Context) (*fleet.Job, error) { return p.take(ctx, queues(p.role)...) }
func (p part) Close() error                                 { return nil }
