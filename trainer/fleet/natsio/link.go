package natsio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// Link is a worker's end: a fleet.Link.
type Link struct {
	blobs
	nc     *nats.Conn
	worker string
	key    string // the public one, which all roles of the worker have; "": it has none
	role   fleet.Role
	mu     sync.Mutex
	at     map[fleet.Hash]chan struct{}
	end    error // why no further job is taken
	queues map[string]jetstream.Consumer
}

// Join connects a worker to the run of a ticket, for what it is to do.
func Join(t Ticket, worker string, role fleet.Role, say func(format string, args ...any)) (_ *Link, err error) {
	if !nameable(worker) {
		return nil, fmt.Errorf("a worker cannot be called %q: letters, digits, - and _ are possible, and %s and %s are the trainer's", worker, trainerName, fleet.Here)
	}
	port, peers, err := peerPort(t.Blobs)
	if err != nil {
		return nil, err
	}
	var past fleet.Blobs
	if t.Blobs != "" && !peers {
		if past, err = fleet.OpenShelf(t.Blobs); err != nil {
			return nil, err
		}
	}
	nc, err := t.connect(worker,
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				say("the trainer is out of reach: %v", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { say("the trainer is there again") }))
	if err != nil {
		return nil, fmt.Errorf("joining run %q at %s: %w\nhint: is its trainer at work, and may this machine connect to it? 'darkroom train --listen' writes the join file anew when its address changes",
			t.Run, strings.Join(t.Addresses, ", "), err)
	}
	l := &Link{blobs: blobs{space: t.Space, from: in, to: out, past: past}, nc: nc, worker: worker, role: role, at: map[fleet.Hash]chan struct{}{}, queues: map[string]jetstream.Consumer{}}
	defer func() {
		if err != nil {
			_ = l.Close()
		}
	}()
	if t.own != "" {
		if l.key, err = publicOf(t.own); err != nil {
			return nil, err
		}
	}
	if l.js, err = jetstream.New(nc); err != nil {
		return nil, err
	}
	if peers {
		b, err := branchOf(nc, t.Space.subject(where), port)
		if err != nil {
			return nil, err
		}
		l.past = b
	}
	nc.SetClosedHandler(func(nc *nats.Conn) { // it does not close by itself unless it is refused
		l.ends(fmt.Errorf("%w: its key is not taken any more (%v)", fleet.ErrDismissed, nc.LastError()))
	})
	if _, err := nc.Subscribe(l.subject(withdraw), func(m *nats.Msg) { l.withdrawn(m.Data) }); err != nil {
		return nil, err
	}
	for subject, end := range map[string]error{dismiss + worker: fleet.ErrDismissed, over: fleet.ErrOver} {
		if _, err := nc.Subscribe(l.subject(subject), func(*nats.Msg) { l.ends(end) }); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *Link) ends(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end == nil {
		l.end = why
	}
}

func (l *Link) withdrawn(text []byte) {
	var name fleet.Hash
	if name.UnmarshalText(text) != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if stop := l.at[name]; stop != nil {
		delete(l.at, name)
		close(stop)
	}
}

// pause is how long a worker waits at a queue, and before it asks a server again that gives no answer.
const pause = 500 * time.Millisecond

// Next is fleet.Link's.
func (l *Link) Next(ctx context.Context) (fleet.Job, error) {
	for ctx.Err() == nil {
		l.mu.Lock()
		end := l.end
		l.mu.Unlock()
		if end != nil {
			return fleet.Job{}, end
		}
		if j := l.look(ctx); j != nil {
			l.mu.Lock()
			l.at[j.Name()] = make(chan struct{})
			l.mu.Unlock()
			return *j, nil
		}
	}
	return fleet.Job{}, ctx.Err()
}

// look looks at the queue of urgent jobs, and waits a little at the other one. Other roles than rolling have one queue.
func (l *Link) look(ctx context.Context) *fleet.Job {
	all := queues(l.role)
	first, second := l.queue(ctx, all[0]), l.queue(ctx, all[len(all)-1])
	if first == nil || second == nil { // the trainer is not there, or begins anew
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		return nil
	}
	if j := takeFrom(first, nil); j != nil {
		return j
	}
	began := time.Now()
	j := takeFrom(second, jetstream.FetchMaxWait(pause))
	if j == nil && time.Since(began) < pause/2 { // it did not wait: the queue is gone
		l.mu.Lock()
		clear(l.queues)
		l.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return j
}

// queue is that of a priority; nil: it is not there.
func (l *Link) queue(ctx context.Context, priority string) jetstream.Consumer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.queues[priority]; c != nil {
		return c
	}
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := l.js.Consumer(limited, l.of(work), priority)
	if err != nil {
		return nil
	}
	l.queues[priority] = c
	return c
}

// Withdrawn is fleet.Link's.
func (l *Link) Withdrawn(name fleet.Hash) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at[name]
}

// Say is fleet.Link's. The first result of a job is kept for a trainer that does not hear of it now.
func (l *Link) Say(ctx context.Context, e fleet.Event) error {
	e.Worker, e.Role = l.worker, l.role
	if e.Kind == fleet.Hello {
		e.Key = l.key
	}
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if e.Kind == fleet.Done {
		l.mu.Lock()
		delete(l.at, e.Job)
		l.mu.Unlock()
		if _, err := l.js.Publish(ctx, l.doneSubject(e.Job), text); err != nil && !isSecond(err) {
			return fmt.Errorf("keeping a result: %w", err)
		}
	}
	if err := l.nc.Publish(l.subject(saySub+l.worker), text); err != nil {
		return err
	}
	if e.Kind == fleet.Bye {
		return l.nc.FlushWithContext(ctx)
	}
	return nil
}

// isSecond reports whether a result was refused since another is kept.
func isSecond(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == 10077
}

// Close ends the connection.
func (l *Link) Close() error {
	l.nc.Close()
	if b, ok := l.past.(*branch); ok {
		return b.Close()
	}
	return nil
}
