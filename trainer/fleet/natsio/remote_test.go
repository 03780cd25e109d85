//go:build !nobroker

package natsio

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// aServer is one of somebody else's, on this machine.
func aServer(t *testing.T, host string) string {
	t.Helper()
	return guarded(t, host, nil).Addr().(*net.TCPAddr).String()
}

// guarded is such a server, which asks whom it lets in.
func guarded(t *testing.T, host string, lets server.Authentication) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: host, Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true, CustomClientAuthentication: lets})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the server does not come up")
	}
	return s
}

// TestRemote: two runs of one name on a foreign server do not get each other's messages; results for a trainer that
// was killed are there for the next one; and a run that is over leaves nothing.
func TestRemote(t *testing.T) {
	at := "nats://" + aServer(t, "127.0.0.1")
	attach := func(dir string) *Broker {
		b, err := Attach(Remote{URLs: at, Dir: dir, Run: "a run"})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	one, two := t.TempDir(), t.TempDir()
	a, b := attach(one), attach(two)
	toil(t, join(t, a, "a"), time.Millisecond)
	toil(t, join(t, b, "b"), time.Millisecond)
	for run, by := range map[*Broker]string{a: "a", b: "b"} {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		var log []fleet.Entry
		f := fleet.New(fleet.Options{Hub: run.Hub, Logf: t.Logf, Rules: fleet.Usual(), Log: func(e fleet.Entry) { log = append(log, e) }})
		if _, err := f.Do(ctx, fleet.Work{Jobs: jobsOf(6), Check: func(fleet.Job, []byte) error { return nil }}); err != nil {
			t.Fatal(err)
		}
		for _, e := range log {
			if e.Worker != by {
				t.Errorf("worker %s did a job of the other run", e.Worker)
			}
		}
	}
	if err := a.Close(); err != nil { // as a trainer that is killed: it says nothing
		t.Fatal(err)
	}
	a = attach(one)
	if e, err := a.Hub.Kept(t.Context(), jobsOf(1)[0].Name()); err != nil || e == nil || e.Worker != "a" {
		t.Errorf("of what was done before there is %v, %v", e, err)
	}
	js := a.Hub.js
	for _, b := range []*Broker{a, b} {
		if err := b.Hub.Over(); err != nil {
			t.Error(err)
		}
	}
	for name := range js.StreamNames(t.Context()).Name() {
		t.Errorf("stream %s is left", name)
	}
	for _, b := range []*Broker{a, b} {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// left is the ticket of a run on a server whose trainer is away.
func left(t *testing.T, at, dir string) Ticket {
	t.Helper()
	b, err := Attach(Remote{URLs: at, Dir: dir, Run: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	ticket, err := ReadTicket(b.Join)
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

// early is a worker that joins in a role before its trainer.
type early struct {
	*testing.T
	said   chan string
	joined chan *Link
	err    error // once joined has its link
}

func joinsEarly(ctx context.Context, t *testing.T, ticket Ticket, name string) *early {
	e := &early{T: t, said: make(chan string, 10), joined: make(chan *Link, 1)}
	go func() {
		l, err := Join(ctx, ticket, name, fleet.Rolls, func(format string, args ...any) { e.said <- fmt.Sprintf(format, args...) })
		e.err = err
		e.joined <- l
	}()
	return e
}

// says is its next line.
func (e *early) says() string {
	e.Helper()
	select {
	case line := <-e.said:
		return line
	case <-e.joined:
		e.Fatalf("it ended without a line: %v", e.err)
	case <-time.After(20 * time.Second):
		e.Fatal("it says nothing")
	}
	return ""
}

// ends is its link.
func (e *early) ends() *Link {
	e.Helper()
	select {
	case l := <-e.joined:
		return l
	case <-time.After(20 * time.Second):
		e.Fatal("it goes on waiting")
	}
	return nil
}

// TestRemoteEarly: a foreign server is there without the trainer. A worker waits for the trainer until it is
// interrupted, and says so, in one line for all of its roles.
func TestRemoteEarly(t *testing.T) {
	t.Parallel()
	dir, at := t.TempDir(), "nats://"+aServer(t, "127.0.0.1")
	ticket := left(t, at, dir)
	ctx, stop := context.WithCancel(t.Context())
	interrupted := joinsEarly(ctx, t, ticket, "early")
	if line := interrupted.says(); !strings.Contains(line, "its trainer gives no answer") {
		t.Error(line)
	}
	stop()
	if interrupted.ends(); !errors.Is(interrupted.err, context.Canceled) {
		t.Error(interrupted.err)
	}
	ticket.silence = &notice{} // of another process
	one := joinsEarly(t.Context(), t, ticket, "early")
	one.says()
	two := joinsEarly(t.Context(), t, ticket.Further(), "early-score")
	select {
	case <-one.joined:
		t.Fatal("it does not wait: ", one.err)
	case <-two.joined:
		t.Fatal("it does not wait: ", two.err)
	case <-time.After(4 * pause): // both have asked again
	}
	b, err := Attach(Remote{URLs: at, Dir: dir, Run: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, e := range []*early{one, two} {
		if toil(t, e.ends(), time.Millisecond); e.err != nil {
			t.Fatal(e.err)
		}
		if len(e.said) > 0 {
			t.Errorf("it says so again: %s", <-e.said)
		}
	}
	do(t, b, 3, false)
}

// TestNotice: a line that is due once is due again after a minute.
func TestNotice(t *testing.T) {
	var n notice
	began := time.Now()
	for after, want := range []bool{true, false, false, true, false} {
		if got := n.due(began.Add(time.Duration(after) * 25 * time.Second)); got != want {
			t.Errorf("after %d s: %v", 25*after, got)
		}
	}
}

// TestRemoteForged: where somebody else answers in the trainer's place, a worker ends at once.
func TestRemoteForged(t *testing.T) {
	t.Parallel()
	at := "nats://" + aServer(t, "127.0.0.1")
	ticket := left(t, at, t.TempDir())
	other, err := ticket.attach("other")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Subscribe(ticket.Space.subject(hail), func(m *nats.Msg) { _ = m.Respond(make([]byte, sealHead+16)) }); err != nil {
		t.Fatal(err)
	}
	if err := other.Flush(); err != nil {
		t.Fatal(err)
	}
	e := joinsEarly(t.Context(), t, ticket, "early")
	if e.ends(); !errors.Is(e.err, errSeal) || !strings.Contains(e.err.Error(), "hint:") {
		t.Error(e.err)
	}
	if len(e.said) > 0 {
		t.Errorf("it is no silence: %s", <-e.said)
	}
}

// door lets clients in while it is open.
type door struct{ open atomic.Bool }

func (d *door) Check(server.ClientAuthentication) bool { return d.open.Load() }

// TestRemoteShut: a server that lets a waiting worker in no longer ends its wait.
func TestRemoteShut(t *testing.T) {
	t.Parallel()
	in := &door{}
	in.open.Store(true)
	s := guarded(t, "127.0.0.1", in)
	e := joinsEarly(t.Context(), t, left(t, "nats://"+s.Addr().String(), t.TempDir()), "early")
	e.says()
	in.open.Store(false)
	all, err := s.Connz(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all.Conns {
		if err := s.DisconnectClientByID(c.Cid); err != nil {
			t.Error(err)
		}
	}
	if e.ends(); !errors.Is(e.err, fleet.ErrDismissed) {
		t.Error(e.err)
	}
}

// TestRemotePeers: with a server of somebody else's, which has another address than the trainer, blobs go to and from
// the trainer. Of two links of one process the first alone has the port that was asked for.
func TestRemotePeers(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("127.0.0.2 is this machine's on Linux alone")
	}
	b, err := Attach(Remote{URLs: "nats://" + aServer(t, "127.0.0.2"), Dir: t.TempDir(), Run: "r", Blobs: byPeers})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	weights, err := b.Hub.Put(ctx, []byte("weights"))
	if err != nil {
		t.Fatal(err)
	}
	ticket := b.Ticket
	ticket.Blobs = "peer:" + strings.TrimPrefix(freeAddress(t), "127.0.0.1:")
	for name, of := range map[string]Ticket{"w": ticket, "w-score": ticket.Further()} {
		l, err := Join(t.Context(), of, name, "", t.Logf)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if got, err := l.Get(ctx, weights); err != nil || string(got) != "weights" {
			t.Errorf("%s has %q, %v", name, got, err)
		}
		result, err := l.Put(ctx, []byte(name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := b.Hub.Get(ctx, result); err != nil || string(got) != name {
			t.Errorf("from %s there is %q, %v", name, got, err)
		}
	}
}

// TestRemoteAddresses: an invalid address, or one that would send keys in the open, is refused with the remedy.
func TestRemoteAddresses(t *testing.T) {
	for url, want := range map[string]string{"nats+tls://a:4222,b:4222": "tls://a:4222,tls://b:4222", "nats://127.0.0.1:4222": "nats://127.0.0.1:4222", "nats://localhost": "nats://localhost",
		"tls://a,tls://b": "tls://a,tls://b"} {
		if all, err := (Remote{URLs: url}).addresses(); err != nil || strings.Join(all, ",") != want {
			t.Errorf("%s: %v, %v", url, all, err)
		}
	}
	for url, says := range map[string]string{"nats://a:4222": "nats+tls://a:4222", "a:4222": "is needed", "http://a": "is needed", "nats+tls://": "is needed", "nats+tls://user:word@a": "is needed",
		"nats://127.0.0.1:1,b:2": "reads along"} {
		if err := (Remote{URLs: url}).Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", url, err, says)
		}
	}
	if _, err := Attach(Remote{URLs: "nats://127.0.0.1:1", Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "hint:") {
		t.Errorf("nobody is there: %v", err)
	}
	if a, b := spaceOf("a run.*>", "/x"), spaceOf("a run.*>", "/y"); a == b || strings.ContainsAny(string(a), ".*> ") {
		t.Errorf("%q and %q", a, b)
	}
	if _, err := ReadTicket(filepath.Join(t.TempDir(), "nothing")); err == nil {
		t.Error("there is no join file")
	}
}
