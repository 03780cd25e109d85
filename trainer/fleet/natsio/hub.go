package natsio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Hub is a trainer's end: a fleet.Hub.
type Hub struct {
	blobs
	*sealer
	roster   *roster
	boxes    map[fleet.Role]*fleet.Mailbox // events of workers of a role
	mu       sync.Mutex
	replicas int
	room     int64                   // bytes of results' blobs; 0: as many as the server takes
	copies   map[fleet.Hash]int      // of a job, as often as it was offered
	put      map[fleet.Hash][]byte   // published blobs
	results  map[fleet.Hash][]string // workers that say to have stored a blob
	broken   chan struct{}           // a worker failed, perhaps since something is not there
}

// newHub is a trainer's end by a connection, which stays the caller's where that fails.
func newHub(ctx context.Context, nc *nats.Conn, of space, past fleet.Blobs, who *roster, room int64) (*Hub, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	h := &Hub{blobs: blobs{space: of, nc: nc, js: js, past: past}, roster: who, room: room, boxes: mailboxes(), copies: map[fleet.Hash]int{}, replicas: 1,
		put: map[fleet.Hash][]byte{}, results: map[fleet.Hash][]string{}, broken: make(chan struct{}, 1)}
	if h.sealer, err = sealerOf(who.id.Trainer); err == nil {
		if of != "" && len(nc.Servers()) >= 3 {
			h.replicas = 3 // a cluster's streams outlive one of its servers
		}
		err = h.begin(ctx)
	}
	if err != nil {
		h.shut()
		return nil, err
	}
	go h.mend()
	return h, nil
}

// begin makes the streams, and takes events of workers.
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
		if err := o.answer(h); err != nil {
			return err
		}
	}
	for what, hear := range map[string]nats.MsgHandler{saySub + "*": h.said, hail: h.hailed, revoke: h.revoked} {
		s, err := h.nc.Subscribe(h.subject(what), hear)
		if err == nil {
			err = s.SetPendingLimits(mostPending, mostPendingBytes)
		}
		if err != nil {
			return err
		}
	}
	if err := h.nc.Publish(h.subject(begin), h.seal(ofBegin, nil)); err != nil {
		return err
	}
	return h.nc.FlushWithContext(ctx) // a worker that joins now is answered
}

// mostPending bounds messages that wait to be taken, and mostPendingBytes their memory. More are lost, which are said
// again, or done again.
const (
	mostPending      = 1 << 16
	mostPendingBytes = 32 << 20
)

// mostHail bounds the number that a worker draws.
const mostHail = 64

// hailed answers who asks for the session.
func (h *Hub) hailed(m *nats.Msg) {
	if m.Reply != "" && len(m.Data) <= mostHail {
		_ = h.answer(m, h.seal(ofHail, m.Data)) // who asked asks again
	}
}

// answer answers on subjects of answers, and nowhere else: it is said with the trainer's rights.
func (h *Hub) answer(m *nats.Msg, text []byte) error {
	if !strings.HasPrefix(m.Reply, inboxes) && !strings.HasPrefix(m.Reply, serverReplies) {
		return nil
	}
	return m.Respond(text)
}

// speaker returns the sender of a message, and its text: by the key of its connection where the server is the
// trainer's own, which takes words in a name of that key alone, or by the key that signed it. "": nobody's.
func (h *Hub) speaker(kind, of, subject string, data []byte) (name string, text []byte) {
	name = h.speakerOf(of, subject)
	if !nameable(name) {
		return "", nil
	}
	if h.space == "" {
		return name, data
	}
	text, ok := h.roster.heard(name, kind, data, h.session)
	if !ok {
		return "", nil
	}
	return name, text
}

// said takes a worker's message, in the name of its key.
func (h *Hub) said(m *nats.Msg) {
	if len(m.Data) > mostWord {
		return
	}
	name, text := h.speaker(ofWord, saySub, m.Subject, m.Data)
	var e fleet.Event
	if name == "" || json.Unmarshal(text, &e) != nil || e.Kind == fleet.Dismissed {
		return
	}
	e = e.From(name)
	box := h.boxOf(e.Role)
	if box == nil {
		return
	}
	switch e.Kind {
	case fleet.Bye:
		h.roster.left(name)
	case fleet.Done:
		h.claims(e)
	}
	box.Put(e)
	if e.Kind == fleet.Failed {
		h.breaks()
	}
}

// mostClaims bounds blobs that workers say to have stored.
const mostClaims = 1 << 16

// claims notes whose a result's blob is.
func (h *Hub) claims(e fleet.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.results) > mostClaims { // nobody fetched these
		clear(h.results)
	}
	if all := h.results[e.Payload]; !slices.Contains(all, e.Worker) {
		h.results[e.Payload] = append(all, e.Worker)
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
	text = h.seal(ofJob, text)
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
		m, err := h.next(ctx, priority, 0)
		switch {
		case errors.Is(err, errNothing):
			continue
		case err != nil:
			return nil, h.again(ctx, "looking for a job", func(ctx context.Context) error {
				_, err := h.js.Consumer(ctx, h.of(work), priority)
				return err
			})
		}
		if s, err := unseal(h.public(), ofJob, m.Data); err == nil {
			if j := jobOf(s); j != nil {
				return j, nil
			}
		}
	}
	return nil, nil
}

// errNothing says that a queue is empty.
var errNothing = errors.New("no job waits")

// errNoQueue says that a queue is not there.
var errNoQueue = errors.New("there is no queue")

// next takes the first message of a queue, and acknowledges it. wait is how long it waits for one.
func (b blobs) next(ctx context.Context, priority string, wait time.Duration) (*nats.Msg, error) {
	ask := `{"batch":1,"no_wait":true}`
	if wait > 0 {
		ask = fmt.Sprintf(`{"batch":1,"expires":%d}`, wait)
	}
	limited, cancel := context.WithTimeout(ctx, wait+5*time.Second)
	defer cancel()
	m, err := b.nc.RequestWithContext(limited, b.nextSubject(priority), []byte(ask))
	if err != nil {
		return nil, err
	}
	switch status := m.Header.Get("Status"); status {
	case "":
		return m, b.nc.Publish(m.Reply, []byte("+ACK"))
	case "404", "408":
		return nil, errNothing
	default:
		return nil, fmt.Errorf("%s %s: %w", status, m.Header.Get("Description"), errNoQueue)
	}
}

// jobOf is the job of a seal; nil: an invalid one.
func jobOf(s sealed) *fleet.Job {
	var j fleet.Job
	if json.Unmarshal(s.text, &j) != nil || len(j.Keys) == 0 && j.Gradient == nil {
		return nil
	}
	return &j
}

// Withdraw implements fleet.Hub.
func (h *Hub) Withdraw(ctx context.Context, name fleet.Hash) error {
	h.mu.Lock()
	copies, known := h.copies[name]
	delete(h.copies, name)
	h.mu.Unlock()
	if known && copies == 1 { // it was taken
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	if s, err := h.js.Stream(limited, h.of(work)); err == nil {
		for _, priority := range priorities() {
			_ = s.Purge(limited, jetstream.WithPurgeSubject(h.workSubject(priority, name))) // a copy that stays does no harm
		}
	}
	return h.nc.Publish(h.subject(withdraw), h.seal(ofWithdraw, name[:]))
}

// Over tells workers that the run is over, and leaves nothing on a server of somebody else's.
func (h *Hub) Over() error {
	err := errors.Join(h.nc.Publish(h.subject(over), h.seal(ofOver, nil)), h.nc.FlushTimeout(5*time.Second))
	if h.space == "" {
		return err // the server ends with the run
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, s := range h.streams(h.room) {
		err = errors.Join(err, h.js.DeleteStream(ctx, s.Name))
	}
	return err
}

// Events implements fleet.Hub.
func (h *Hub) Events() <-chan fleet.Event { return h.boxOf(fleet.Rolls).Out() }

// Kept implements fleet.Hub.
func (h *Hub) Kept(ctx context.Context, name fleet.Hash) (first *fleet.Event, err error) {
	err = h.againWithin(ctx, 8*time.Second, "looking for a result", func(ctx context.Context) error {
		s, err := h.js.Stream(ctx, h.of(done))
		if err != nil {
			return err
		}
		for seq := uint64(1); ; seq++ {
			m, err := s.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(h.doneSubject("*", name)))
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				return nil
			}
			if err != nil {
				return err
			}
			seq = m.Sequence
			worker, text := h.speaker(ofResult, "done.", m.Subject, m.Data)
			var e fleet.Event
			if worker == "" || json.Unmarshal(text, &e) != nil || e.Job != name || e.Kind != fleet.Done {
				continue
			}
			e = e.From(worker)
			first = &e
			h.claims(e)
			return nil
		}
	})
	return first, err
}

// Forget is fleet.Hub's. The results' blobs go with it.
func (h *Hub) Forget(ctx context.Context, name fleet.Hash) error {
	e, err := h.Kept(ctx, name)
	if err != nil {
		return err
	}
	if e != nil {
		if err := h.dropResult(ctx, e.Payload); err != nil {
			return fmt.Errorf("dropping a result: %w", err)
		}
	}
	return h.again(ctx, "forgetting a result", func(ctx context.Context) error {
		return h.purge(ctx, done, h.doneSubject("*", name))
	})
}

// dropResult lets go of a result's blob.
func (h *Hub) dropResult(ctx context.Context, name fleet.Hash) error {
	h.mu.Lock()
	delete(h.results, name)
	h.mu.Unlock()
	if h.past != nil {
		return h.past.Drop(ctx, name)
	}
	return h.again(ctx, "forgetting a result", func(ctx context.Context) error { return h.purge(ctx, out, h.outSubject("*", name)+".>") })
}

// Put is fleet.Blobs'. A blob that the server has lost is put again.
func (h *Hub) Put(ctx context.Context, data []byte) (fleet.Blob, error) {
	b := fleet.BlobOf(data)
	if h.past != nil { // which loses nothing while the trainer is there
		return h.past.Put(ctx, data)
	}
	h.mu.Lock()
	h.put[b.Hash] = data
	h.mu.Unlock()
	return b, h.againWithin(ctx, b.Limit(), "publishing", func(ctx context.Context) error { return h.publish(ctx, b, data) })
}

// publish stores a blob for workers, where it is not there.
func (h *Hub) publish(ctx context.Context, b fleet.Blob, data []byte) error {
	if h.complete(ctx, in, h.inSubject(b.Hash), b) {
		return nil
	}
	return h.send(ctx, h.inSubject(b.Hash), data)
}

// Get is fleet.Blobs': blobs that workers have stored, of the given ones.
func (h *Hub) Get(ctx context.Context, b fleet.Blob) (data []byte, err error) {
	if h.past != nil {
		return h.past.Get(ctx, b)
	}
	h.mu.Lock()
	all := slices.Clone(h.results[b.Hash])
	h.mu.Unlock()
	err = fmt.Errorf("fetching %s: %w", b.Hash.Short(), fleet.ErrNoBlob)
	for _, worker := range all {
		if data, err = h.fetch(ctx, out, h.outSubject(worker, b.Hash), b); err == nil || ctx.Err() != nil {
			return data, err
		}
	}
	return nil, err
}

// Drop is fleet.Blobs': of blobs put here.
func (h *Hub) Drop(ctx context.Context, name fleet.Hash) error {
	h.mu.Lock()
	delete(h.put, name)
	h.mu.Unlock()
	if h.past != nil {
		return h.past.Drop(ctx, name)
	}
	return h.again(ctx, "dropping a blob", func(ctx context.Context) error { return h.purge(ctx, in, h.inSubject(name)+".>") })
}

// shut drops events that nobody has taken.
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

// tries is how often something is asked of a server that does not do it.
const tries = 5

// again calls do, and where it fails makes missing streams and calls it once more.
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
			_ = h.furnish(ctx) // a stream that cannot be made fails below
			h.breaks()         // published blobs are missing there, too
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

// mend makes missing streams for workers: now and then, and, once a second at most, when one failed.
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

// refill publishes again blobs that the server has lost, each within its own limit. Jobs are offered meanwhile.
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
		b := fleet.Blob{Hash: name, Size: int64(len(data))}
		ctx, cancel := context.WithTimeout(context.Background(), b.Limit())
		err := h.publish(ctx, b, data)
		cancel()
		if err != nil {
			return // the server has gone again
		}
	}
}

// thin empties the list of results that are kept for a trainer to come where it is nearly full: those of this run are
// few, and missing ones are done again.
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

// Workers of other roles than rolling: a queue and a mailbox each.

// queues are those that workers of a role take from: the first without waiting.
func queues(r fleet.Role) []string {
	for _, d := range fleet.Duties() {
		if d.Role == r {
			return d.Queues
		}
	}
	return nil
}

// mailboxes are one a role.
func mailboxes() map[fleet.Role]*fleet.Mailbox {
	all := map[fleet.Role]*fleet.Mailbox{}
	for _, d := range fleet.Duties() {
		all[d.Role] = fleet.NewMailbox()
	}
	return all
}

// boxOf is the mailbox of a role's workers; nil: there is no such role.
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
