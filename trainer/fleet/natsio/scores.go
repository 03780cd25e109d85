package natsio

import (
	"context"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// The second queue, of workers who ask rewards: its own mailbox beside that of rolls.

// roleOf is who does a job.
func roleOf(j fleet.Job) fleet.Role {
	if j.Score != nil {
		return fleet.Scorers
	}
	return fleet.Rolls
}

// boxOf is where what workers of a role say is kept.
func (h *Hub) boxOf(r fleet.Role) *fleet.Mailbox {
	if r == fleet.Scorers {
		return h.scores
	}
	return h.box
}

// Scores is the hub of workers who ask rewards. It ends with this one.
func (h *Hub) Scores() fleet.Hub { return scoring{h} }

type scoring struct{ *Hub }

func (s scoring) Events() <-chan fleet.Event                   { return s.scores.Out() }
func (s scoring) Take(ctx context.Context) (*fleet.Job, error) { return s.take(ctx, score) }
func (s scoring) Close() error                                 { return nil }
