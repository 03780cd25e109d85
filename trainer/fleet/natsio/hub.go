package natsio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// Hub is a trainer's end: a fleet.Hub.
type Hub struct {
	blobs
	nc       *nats.Conn
	boxes    map[fleet.Role]*fleet.Mailbox // what workers of a role say
	mu       sync.Mutex
	replicas int
	copies   map[fleet.Hash]int // of a job, as often as it was offered
	put      map[fleet.Hash][]byte
	broken   chan struct{}                         // a worker failed, perhaps since something is not there
	keys     map[string]string                     // of workers that were heard, as they say
	revoke   func(worker string) ([]string, error) // takes its key back, and names its other roles; nil: the server is somebody else's
}

// newHub is a trainer's end by a connection, which stays the caller's where that fails.
func newHub(ctx context.Context, nc *nats.Conn, of space, past fleet.Blobs) (*Hub, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	h := &Hub{blobs: blobs{space: of, js: js, from: out, to: in, past: past}, nc: nc, boxes: mailboxes(), copies: map[fleet.Hash]int{}, replicas: 1, put: map[fleet.Hash][]byte{}, keys: map[string]string{}, broken: make(chan struct{}, 1)}
	if of != "" && len(nc.Servers()) >= 3 {
		h.replicas = 3 // a cluster's streams outlive one of its servers
	}
	if err := h.begin(ctx); err != nil {
		h.shut()
		return nil, err
	}
	go h.mend()
	return h, nil
}

// begin makes what is to be there, and hears workers.
func (h *Hub) begin(ctx context.Context) error {
	err := h.furnish(ctx)
	if err != nil && h.replicas > 1 {
		h.replicas = 1 // not all of them have JetStream
		err = h.furnish(ctx)
	}
	if err != nil {
		return err
	}
	if o, ok := h.past.(*origin); ok {
		if err := o.answer(h.nc, h.subject(where)); err != nil {
			return err
		}
	}
	if _, err = h.nc.Subscribe(h.subject(saySub+">"), h.said); err != nil {
		return err
	}
	return h.nc.FlushWithContext(ctx) // whoever joins now is answered
}

// said takes what a worker says, in its own name.
func (h *Hub) said(m *nats.Msg) {
	var e fleet.Event
	if json.Unmarshal(m.Data, &e) != nil || !nameable(e.Worker) || m.Subject != h.subject(saySub+e.Worker) || e.Kind == fleet.Dismissed {
		return
	}
	box := h.boxOf(e.Role)
	if box == nil {
		return
	}
	if e.Kind == fleet.Hello && e.Key != "" {
		h.mu.Lock()
		h.keys[e.Worker] = e.Key
		h.mu.Unlock()
	}
	box.Put(e)
	if e.Kind == fleet.Failed {
		select {
		case h.broken <- struct{}{}:
		default:
		}
	}
}

// looks is how often the hub looks whether all is there that workers need.
const looks = 5 * time.Second

// Offer is fleet.Hub's. A job that is offered once more may have been done, and only the word of it been lost.
func (h *Hub) Offer(ctx context.Context, name fleet.Hash, j fleet.Job, isUrgent bool) error {
	if isUrgent {
		if e, err := h.Kept(ctx, name); err == nil && e != nil {
			h.boxOf(j.Role()).Put(*e)
			return nil
		}
	}
	all := queues(j.Role())
	priority := all[len(all)-1]
	if isUrgent {
		priority = all[0]
	}
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.copies[name]++
	h.mu.Unlock()
	return h.again(ctx, "offering a job", func(ctx context.Context) error {
		_, err := h.js.Publish(ctx, h.workSubject(priority, name), text)
		return err
	})
}

// Take is fleet.Hub's. Where nothing comes, nothing is taken.
func (h *Hub) Take(ctx context.Context) (*fleet.Job, error) {
	return h.take(ctx, queues(fleet.Rolls)...)
}

func (h *Hub) take(ctx context.Context, priorities ...string) (*fleet.Job, error) {
	for _, priority := range priorities {
		c, err := h.js.Consumer(ctx, h.of(work), priority)
		if err != nil {
			return nil, h.again(ctx, "looking for a job", func(ctx context.Context) error {
				_, err := h.js.Consumer(ctx, h.of(work), priority)
				return err
			})
		}
		if j := takeFrom(c, nil); j != nil {
			return j, nil
		}
	}
	return nil, nil
}

// takeFrom takes a job, and acknowledges it; nil: none is there. wait is how long it waits for one; nil: not at all.
func takeFrom(c jetstream.Consumer, wait jetstream.FetchOpt) *fleet.Job {
	fetch := func() (jetstream.MessageBatch, error) { return c.FetchNoWait(1) }
	if wait != nil {
		fetch = func() (jetstream.MessageBatch, error) { return c.Fetch(1, wait) }
	}
	batch, err := fetch()
	if err != nil {
		return nil
	}
	for m := range batch.Messages() {
		var j fleet.Job
		if m.Ack() == nil && json.Unmarshal(m.Data(), &j) == nil && len(j.Keys) > 0 {
			return &j
		}
	}
	return nil
}

// Withdraw is fleet.Hub's.
func (h *Hub) Withdraw(ctx context.Context, name fleet.Hash) error {
	h.mu.Lock()
	copies, known := h.copies[name]
	delete(h.copies, name)
	h.mu.Unlock()
	if known && copies == 1 { // it was taken
		return nil
	}
	if s, err := h.js.Stream(ctx, h.of(work)); err == nil {
		for _, priority := range priorities() {
			_ = s.Purge(ctx, jetstream.WithPurgeSubject(h.workSubject(priority, name))) // a copy that stays does no harm
		}
	}
	return h.nc.Publish(h.subject(withdraw), []byte(name.String()))
}

// Over tells workers that the run is over, and leaves nothing on a server of somebody else's.
func (h *Hub) Over() error {
	err := errors.Join(h.nc.Publish(h.subject(over), nil), h.nc.FlushTimeout(5*time.Second))
	if h.space == "" {
		return err // the server ends with the run
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, name := range []string{h.of(work), h.of(done), "OBJ_" + h.of(in), "OBJ_" + h.of(out)} {
		err = errors.Join(err, h.js.DeleteStream(ctx, name))
	}
	return err
}

// Events is fleet.Hub's.
func (h *Hub) Events() <-chan fleet.Event { return h.boxOf(fleet.Rolls).Out() }

// Kept is fleet.Hub's.
func (h *Hub) Kept(ctx context.Context, name fleet.Hash) (*fleet.Event, error) {
	var e fleet.Event
	found := false
	err := h.again(ctx, "looking for a result", func(ctx context.Context) error {
		s, err := h.js.Stream(ctx, h.of(done))
		if err != nil {
			return err
		}
		m, err := s.GetLastMsgForSubject(ctx, h.doneSubject(name))
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			return nil
		case err != nil:
			return err
		}
		found = json.Unmarshal(m.Data, &e) == nil && e.Job == name && e.Kind == fleet.Done && nameable(e.Worker)
		return nil
	})
	if err != nil || !found {
		return nil, err
	}
	return &e, nil
}

// Forget is fleet.Hub's. The result's blob goes with it.
func (h *Hub) Forget(ctx context.Context, name fleet.Hash) error {
	e, err := h.Kept(ctx, name)
	if err != nil || e == nil {
		return err
	}
	if err := h.drop(ctx, out, e.Payload); err != nil {
		return fmt.Errorf("dropping a result: %w", err)
	}
	return h.again(ctx, "forgetting a result", func(ctx context.Context) error {
		s, err := h.js.Stream(ctx, h.of(done))
		if err != nil {
			return err
		}
		return s.Purge(ctx, jetstream.WithPurgeSubject(h.doneSubject(name)))
	})
}

// Put is fleet.Blobs'. What was put is put again where the server has lost it.
func (h *Hub) Put(ctx context.Context, data []byte) (fleet.Blob, error) {
	b := fleet.BlobOf(data)
	h.mu.Lock()
	if h.past == nil { // which loses nothing while the trainer is there
		h.put[b.Hash] = data
	}
	h.mu.Unlock()
	return b, h.againWithin(ctx, b.Limit(), "publishing", func(ctx context.Context) error {
		_, err := h.blobs.Put(ctx, data)
		return err
	})
}

// Drop is fleet.Blobs'.
func (h *Hub) Drop(ctx context.Context, name fleet.Hash) error {
	h.mu.Lock()
	delete(h.put, name)
	h.mu.Unlock()
	return h.blobs.Drop(ctx, name)
}

// shut drops what nobody has heard.
func (h *Hub) shut() {
	for _, b := range h.boxes {
		b.Close()
	}
}

// Close ends the connection.
func (h *Hub) Close() error {
	h.shut()
	h.nc.Close()
	return nil
}
