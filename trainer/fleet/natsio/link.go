package natsio

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// Link is a worker's end: a fleet.Link.
type Link struct {
	blobs
	worker  string
	role    fleet.Role
	trainer ed25519.PublicKey // of whom it obeys
	voucher []byte            // where its words are signed (seal.go): the prefix of each
	own     *sealer
	say     func(format string, args ...any)
	hailing sync.Mutex // one asks at a time

	mu      sync.Mutex
	session session          // the trainer's; zero: not known yet
	over    map[session]bool // those that were another one when it was asked for: none of them comes again
	at      map[fleet.Hash]*under
	end     error // why no further job is taken
	away    bool  // the other end of the connection was said to be out of reach
}

// under is a job under way.
type under struct {
	stop   chan struct{}
	number uint64 // of its offer
}

// Join connects a worker to the run of a ticket, in a role. A server that is out of reach is tried again for a minute:
// it may be starting. The trainer of a server of somebody else's is waited for without an end.
func Join(ctx context.Context, t Ticket, worker string, role fleet.Role, say func(format string, args ...any)) (_ *Link, err error) {
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
	if t.own == "" {
		if t, err = t.WithKey(); err != nil {
			return nil, err
		}
	}
	l := &Link{}
	connect := func() (*nats.Conn, error) {
		return t.connect(worker, nats.DisconnectErrHandler(func(nc *nats.Conn, err error) { l.lost(nc, err) }))
	}
	nc, err := connect()
	for began := time.Now(); unreachable(err) && time.Since(began) < starting; nc, err = connect() {
		if time.Since(began) < pause {
			say("run %q is out of reach at %s (%v): its trainer may be starting; it is tried again for %v", t.Run, strings.Join(t.Addresses, ", "), err, starting)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err != nil {
		if errors.Is(err, nats.ErrAuthorization) {
			return nil, fmt.Errorf("joining run %q at %s: %w\nhint: is a worker called %s there already (--name gives another name), or was the join file written anew since (copy it again)%s?",
				t.Run, strings.Join(t.Addresses, ", "), err, worker, t.lastDay())
		}
		return nil, fmt.Errorf("joining run %q at %s: %w\nhint: is its trainer at work, and may this machine connect to it? 'darkroom train --listen' writes the join file anew when its address changes",
			t.Run, strings.Join(t.Addresses, ", "), err)
	}
	l.mu.Lock()
	l.blobs, l.worker, l.role, l.say, l.at, l.over = blobs{space: t.Space, nc: nc, past: past}, worker, role, say, map[fleet.Hash]*under{}, map[session]bool{}
	l.mu.Unlock()
	defer func() {
		if err != nil {
			_ = l.Close()
		}
	}()
	if err := l.keys(t); err != nil {
		return nil, err
	}
	if l.js, err = jetstream.New(nc); err != nil {
		return nil, err
	}
	if peers {
		b, err := branchOf(nc, l.subject(where), l.trainer, port)
		if err != nil {
			return nil, err
		}
		l.past = b
	}
	nc.SetClosedHandler(func(nc *nats.Conn) { // it does not close by itself unless it is refused
		l.ends(shut(nc))
	})
	nc.SetReconnectHandler(func(*nats.Conn) {
		l.mu.Lock()
		told := l.away
		l.away = false
		l.mu.Unlock()
		if told {
			say("%s is there again", l.other())
		}
		_ = l.hail(context.Background()) // it is asked for again with the next job
	})
	if err := l.listen(); err != nil {
		return nil, err
	}
	return l, l.awaits(ctx, t)
}

// shut is the end by a connection that the server has closed.
func shut(nc *nats.Conn) error {
	return fmt.Errorf("%w: its key is not taken any more (%v)", fleet.ErrDismissed, nc.LastError())
}

// starting is how long a worker tries to reach a server for the first time.
const starting = time.Minute

// awaits waits for a trainer on a server of somebody else's, which is there without it. The wait has no end of its own:
// systemd, Slurm and Kubernetes may start workers long before the trainer.
func (l *Link) awaits(ctx context.Context, t Ticket) error {
	if l.voucher == nil { // the trainer's own server answered
		return nil
	}
	if t.silence == nil {
		t.silence = &notice{}
	}
	for {
		err := l.hail(ctx)
		if errors.Is(err, nats.ErrConnectionClosed) {
			l.ends(shut(l.nc)) // its handler may come later
		}
		switch end := l.ended(); {
		case ctx.Err() != nil:
			return ctx.Err()
		case end != nil:
			return fmt.Errorf("joining run %q: %w", t.Run, end)
		case err == nil:
			return nil
		case errors.Is(err, errSeal):
			return fmt.Errorf("joining run %q: the answer on its server is not from the trainer of the join file: %w\nhint: was the run begun anew since? Copy the join file again from its folder", t.Run, err)
		case !unanswered(err):
			return fmt.Errorf("joining run %q: asking its trainer: %w", t.Run, err)
		}
		if last := l.nc.LastError(); errors.Is(last, nats.ErrPermissionViolation) { // the server says so beside the request
			err = last
		}
		if t.silence.due(time.Now()) {
			l.say("the server of run %q is there, and its trainer gives no answer (%v): it may be starting; this worker waits for it", t.Run, err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// unanswered reports whether an error is the absence of an answer, which may come yet.
func unanswered(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrDisconnected)
}

// A notice is a line about something that all links of a process meet: one of them says it, and again after a minute.
type notice struct {
	mu   sync.Mutex
	said time.Time
}

// due reports whether the line is to be said now; who asks says it.
func (n *notice) due(now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.said.IsZero() && now.Sub(n.said) < time.Minute {
		return false
	}
	n.said = now
	return true
}

// unreachable reports whether an error is a server's absence, and no refusal.
func unreachable(err error) bool {
	var dial net.Error
	return errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, io.EOF) || errors.As(err, &dial)
}

// lost says that the other end of the connection is out of reach, unless it comes back at once, or the trainer has
// ended the run: its last word and the end of the connection come together.
func (l *Link) lost(nc *nats.Conn, err error) {
	if err == nil {
		return
	}
	time.AfterFunc(farewell, func() {
		l.mu.Lock()
		say, quiet := l.say, l.end != nil || nc.IsConnected() || nc.IsClosed()
		l.away = l.away || !quiet
		l.mu.Unlock()
		if !quiet && say != nil {
			say("%s is out of reach: %s; it is tried again", l.other(), cause(err))
		}
	})
}

// other names the other end of the connection.
func (l *Link) other() string {
	if l.space != "" {
		return "the run's server"
	}
	return "the trainer"
}

// cause is the end of a connection in words.
func cause(err error) string {
	if errors.Is(err, io.EOF) {
		return "its end of the connection was closed, as when its process ends (EOF)"
	}
	return err.Error()
}

// keys are the keys that it verifies with and, on a foreign server, signs with.
func (l *Link) keys(t Ticket) (err error) {
	if l.trainer, err = verifierOf(t.Trainer); err != nil {
		return err
	}
	if l.own, err = sealerOf(t.own); err != nil || t.Space == "" {
		return err
	}
	public, err := publicOf(t.own)
	if err != nil {
		return err
	}
	vouched, err := vouch(t.Seed, l.worker, public)
	l.voucher = append(slices.Clone(l.own.public()), vouched...)
	return err
}

// listen takes the trainer's messages to all, or to this worker.
func (l *Link) listen() error {
	mine := func(s sealed) bool { return string(s.text) == l.name() }
	for _, s := range []struct {
		subject, kind string
		hear          func(s sealed)
	}{
		{begin, ofBegin, func(sealed) {}}, // its session is asked for
		{withdraw, ofWithdraw, l.withdrawn},
		{over, ofOver, func(sealed) { l.ends(fleet.ErrOver) }},
		{dismiss + l.worker, ofDismiss, func(s sealed) {
			if mine(s) {
				l.ends(fleet.ErrDismissed)
			}
		}},
	} {
		if _, err := l.nc.Subscribe(l.subject(s.subject), func(m *nats.Msg) {
			if said, err := l.obeys(context.Background(), s.kind, m.Data); err == nil {
				s.hear(said)
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// name is the public key of the worker, as it is written.
func (l *Link) name() string {
	public, _ := nkeys.Encode(nkeys.PrefixByteUser, l.own.public()) // a key's length is right
	return string(public)
}

// errOld says that something was said in another session of the trainer.
var errOld = errors.New("the trainer has said it in another of its sessions")

// obeys reads a message of the trainer in its present session.
func (l *Link) obeys(ctx context.Context, kind string, data []byte) (s sealed, err error) {
	if s, err = unseal(l.trainer, kind, data); err != nil {
		return s, err
	}
	l.mu.Lock()
	now, past := s.session == l.session, l.over[s.session]
	l.mu.Unlock()
	switch {
	case now:
		return s, nil
	case past:
		return s, errOld
	}
	if err := l.hail(ctx); err != nil {
		return s, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.session != l.session {
		l.over[s.session] = true
		return s, errOld
	}
	return s, nil
}

// now is the trainer's session; zero: it is not known.
func (l *Link) now() session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

// hail asks for the trainer's session.
func (l *Link) hail(ctx context.Context) error {
	l.hailing.Lock()
	defer l.hailing.Unlock()
	number := once()
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	m, err := l.nc.RequestWithContext(limited, l.subject(hail), number)
	if err != nil {
		return err
	}
	s, err := unseal(l.trainer, ofHail, m.Data)
	if err == nil && !bytes.Equal(s.text, number) {
		err = errSeal
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session = s.session
	return nil
}

func (l *Link) ends(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end == nil {
		l.end = why
	}
}

// ended is why no further job is taken; nil while jobs are.
func (l *Link) ended() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// withdrawn stops a job that was offered before it was withdrawn.
func (l *Link) withdrawn(s sealed) {
	var name fleet.Hash
	if len(s.text) != len(name) {
		return
	}
	copy(name[:], s.text)
	l.mu.Lock()
	defer l.mu.Unlock()
	if u := l.at[name]; u != nil && u.number < s.number {
		delete(l.at, name)
		close(u.stop)
	}
}

// pause is how long a worker waits at a queue, and before it asks a server again that gives no answer.
const pause = 500 * time.Millisecond

// Next implements fleet.Link.
func (l *Link) Next(ctx context.Context) (fleet.Job, error) {
	for ctx.Err() == nil {
		if end := l.ended(); end != nil {
			return fleet.Job{}, end
		}
		m := l.look(ctx)
		if m == nil {
			continue
		}
		s, err := l.obeys(ctx, ofJob, m.Data)
		if err != nil {
			if !errors.Is(err, errOld) { // a trainer that is resumed offers its jobs anew
				l.say("a job is not taken: %v", err)
			}
			continue
		}
		if j := jobOf(s); j != nil {
			l.takes(j.Name(), s.number)
			return *j, nil
		}
	}
	return fleet.Job{}, ctx.Err()
}

// takes counts a job as under way. A job that was offered twice keeps the channel that its first taker waits at.
func (l *Link) takes(name fleet.Hash, number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if u := l.at[name]; u != nil {
		u.number = max(u.number, number)
		return
	}
	l.at[name] = &under{make(chan struct{}), number}
}

// look looks at the queue of urgent jobs, and waits a little at the other one. Other roles than rolling have one queue.
func (l *Link) look(ctx context.Context) *nats.Msg {
	all := queues(l.role)
	for i, priority := range all {
		wait := time.Duration(0)
		if i == len(all)-1 {
			wait = pause
		}
		m, err := l.next(ctx, priority, wait)
		if err == nil {
			return m
		}
		if !errors.Is(err, errNothing) { // the trainer is not there, or begins anew
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			return nil
		}
	}
	return nil
}

// Withdrawn implements fleet.Link.
func (l *Link) Withdrawn(name fleet.Hash) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if u := l.at[name]; u != nil {
		return u.stop
	}
	return nil
}

// Send implements fleet.Link. A result of a job is kept for a trainer that is away now.
func (l *Link) Send(ctx context.Context, e fleet.Event) error {
	e.Worker, e.Role = l.worker, l.role
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if e.Kind == fleet.Done {
		l.mu.Lock()
		delete(l.at, e.Job)
		l.mu.Unlock()
		if _, err := l.js.Publish(ctx, l.doneSubject(l.worker, e.Job), l.word(ofResult, text)); err != nil && !isSecond(err) {
			return fmt.Errorf("keeping a result: %w", err)
		}
	}
	if l.voucher != nil && l.now() == (session{}) {
		if err := l.hail(ctx); err != nil {
			return err
		}
	}
	if err := l.nc.Publish(l.subject(saySub+l.worker), l.word(ofWord, text)); err != nil {
		return err
	}
	if e.Kind == fleet.Bye {
		return l.nc.FlushWithContext(ctx)
	}
	return nil
}

// word is the worker's message: as it is to the trainer's own server, which knows whose connection it is, and sealed
// to one of somebody else's.
func (l *Link) word(kind string, text []byte) []byte {
	if l.voucher == nil {
		return text
	}
	return append(slices.Clone(l.voucher), l.own.sealIn(l.now(), kind, text)...)
}

// Put is fleet.Blobs': a result.
func (l *Link) Put(ctx context.Context, data []byte) (fleet.Blob, error) {
	if l.past != nil {
		return l.past.Put(ctx, data)
	}
	b := fleet.BlobOf(data)
	return b, l.send(ctx, l.outSubject(l.worker, b.Hash), data)
}

// Get is fleet.Blobs': blobs that the trainer has published.
func (l *Link) Get(ctx context.Context, b fleet.Blob) ([]byte, error) {
	if l.past != nil {
		return l.past.Get(ctx, b)
	}
	return l.fetch(ctx, in, l.inSubject(b.Hash), b)
}

// Drop is fleet.Blobs': of blobs put here. The trainer drops results.
func (l *Link) Drop(ctx context.Context, name fleet.Hash) error {
	if l.past != nil {
		return l.past.Drop(ctx, name)
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
