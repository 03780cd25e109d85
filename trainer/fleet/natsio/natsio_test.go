package natsio

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

var long = flag.Bool("long", false, "measure the carrier, and try a cluster of three servers")

// TestCarries: jobs, results and blobs of several workers come through, with the streams deleted under way, and
// results kept for a trainer are taken by the next.
func TestCarries(t *testing.T) {
	b := listen(t, t.TempDir())
	for i := range 3 {
		toil(t, join(t, b, fmt.Sprint("w", i)), 20*time.Millisecond)
	}
	f := do(t, b, 12, false)
	if n := f.Counts(); n.Done != 12 || n.Differed > 0 {
		t.Errorf("%+v", n)
	}
	began := time.Now()
	if n := do(t, b, 12, false).Counts(); n.Done != 12 {
		t.Errorf("%+v", n)
	}
	t.Logf("kept results are taken within %v", time.Since(began))
	ctx := context.Background()
	var names []fleet.Hash
	for _, j := range jobsOf(12) {
		names = append(names, j.Name())
	}
	if err := f.Forget(ctx, names); err != nil {
		t.Fatal(err)
	}
	if e, err := b.Hub.Kept(ctx, names[3]); err != nil || e != nil {
		t.Errorf("a forgotten result: %v, %v", e, err)
	}
	over := make(chan struct{})
	var wiped sync.WaitGroup
	wiped.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			case <-time.After(150 * time.Millisecond):
				if i < 3 {
					_ = b.Hub.js.DeleteStream(ctx, victim(i)) // its effect is tested
				}
			}
		}
	})
	do(t, b, 30, true)
	close(over)
	wiped.Wait()
}

// TestAlone: a trainer without workers takes its jobs from the queue itself.
func TestAlone(t *testing.T) {
	b := listen(t, t.TempDir())
	if n := do(t, b, 5, true).Counts(); n.Done != 5 || n.Lost+n.Expired > 0 {
		t.Errorf("%+v", n)
	}
}

// victim is the stream that is deleted i-th.
func victim(i int) string { return []string{work, done, out}[i%3] }

// TestLocked: without the key, without TLS or by another certificate nobody comes in, and a worker has a worker's
// permissions and nothing else.
func TestLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := listen(t, dir)
	ticket, err := ReadTicket(b.Join)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{JoinFile, identityFile} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if nc, err := nats.Connect("nats://"+ticket.Addresses[0], nats.Timeout(5*time.Second)); err == nil {
		nc.Close()
		t.Error("somebody without a key came in")
	}
	other, err := newIdentity()
	if err != nil {
		t.Fatal(err)
	}
	for says, spoil := range map[string]func(t *Ticket){
		"uthorization": func(t *Ticket) { t.Seed = other.Worker },
		"certificate":  func(t *Ticket) { t.Certificate = other.Certificate },
	} {
		spoilt := ticket
		spoil(&spoilt)
		if l, err := Join(t.Context(), spoilt, "w", fleet.Rolls, t.Logf); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "hint:") {
			t.Errorf("%v; want %q in it", err, says)
			if l != nil {
				l.Close()
			}
		}
	}
	l := join(t, b, "w")
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	if _, err := l.js.CreateStream(ctx, jetstream.StreamConfig{Name: "OWN", Subjects: []string{"own"}}); err == nil {
		t.Error("a worker made a stream")
	}
	ctx, cancel = context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	if _, err := l.js.Publish(ctx, l.workSubject("plain", fleet.Hash{}), []byte("{}")); err == nil {
		t.Error("a worker published work")
	}
	ctx, cancel = context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	if err := l.send(ctx, l.inSubject(fleet.Hash{}), []byte("weights")); err == nil {
		t.Error("a worker published weights")
	}
}

// TestTickets: invalid join files are refused with their name; a trainer that is resumed has the same keys.
func TestTickets(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "j")
	for text, says := range map[string]string{"": "no join file", "{}": "are missing", `{"addresses": ["a:1"], "seed": "S", "certificate": "C"}`: "are missing"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadTicket(path); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if !Open(path) {
		t.Error("others may read it")
	}
	if _, err := ReadTicket(filepath.Join(dir, "nothing")); err == nil || !strings.Contains(err.Error(), "hint:") {
		t.Error(err)
	}
	one, err := identityIn(dir)
	if err != nil {
		t.Fatal(err)
	}
	if two, err := identityIn(dir); err != nil || !reflect.DeepEqual(two, one) {
		t.Errorf("other keys: %v", err)
	}
	for _, at := range []string{"4222", "host:x", "host:70000"} {
		if _, err := Listen(Address{Listen: at, Dir: dir}); err == nil || !strings.Contains(err.Error(), "host:port") {
			t.Errorf("%s: %v", at, err)
		}
	}
	if _, err := Join(t.Context(), Ticket{}, "a.b", fleet.Rolls, nil); err == nil {
		t.Error("a name with a dot was taken")
	}
	if host, _, err := (Address{Listen: ":0"}).split(); err != nil || host != "127.0.0.1" {
		t.Errorf("without a host it listens on %q, %v", host, err)
	}
}

// TestTrainerAgain: a worker finds a trainer that was killed and resumed on the same port.
func TestTrainerAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, err := Listen(Address{Listen: "127.0.0.1:0", Dir: dir, Run: "test"})
	if err != nil {
		t.Fatal(err)
	}
	l := join(t, b, "w")
	toil(t, l, time.Millisecond)
	do(t, b, 2, false)
	at := b.Ticket.Addresses[0]
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Listen(Address{Listen: at, Dir: dir, Run: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}()
	do(t, again, 3, false)
	if _, err := again.Hub.Get(context.Background(), fleet.Blob{Hash: fleet.Hash{1}, Size: 1}); !errors.Is(err, fleet.ErrNoBlob) {
		t.Errorf("a blob that nobody put: %v", err)
	}
}

// TestEarly: a worker that is started before its trainer, or while the trainer is away, joins when it is there.
// An interrupt ends its wait.
func TestEarly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, err := Listen(Address{Listen: "127.0.0.1:0", Dir: dir, Run: "test"})
	if err != nil {
		t.Fatal(err)
	}
	at, ticket := b.Ticket.Addresses[0], b.Ticket
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1)
	type joined struct {
		l   *Link
		err error
	}
	joins := func(ctx context.Context) chan joined {
		c := make(chan joined, 1)
		go func() {
			l, err := Join(ctx, ticket, "early", fleet.Rolls, func(format string, args ...any) { said <- fmt.Sprintf(format, args...) })
			c <- joined{l, err}
		}()
		return c
	}
	interrupted, stop := context.WithCancel(t.Context())
	c := joins(interrupted)
	if line := <-said; !strings.Contains(line, at) || !strings.Contains(line, "may be starting") {
		t.Error(line)
	}
	stop()
	if j := <-c; !errors.Is(j.err, context.Canceled) {
		t.Error(j.err)
	}
	c = joins(t.Context())
	<-said
	again, err := Listen(Address{Listen: at, Dir: dir, Run: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}()
	j := <-c
	if j.err != nil {
		t.Fatal(j.err)
	}
	toil(t, j.l, time.Millisecond)
	do(t, again, 3, false)
}

// pieces is how many a stream has.
func pieces(t *testing.T, b *Broker, stream string) uint64 {
	t.Helper()
	s, err := b.Hub.js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

// TestShared: through a folder that all share nothing goes through the server's stores.
func TestShared(t *testing.T) {
	t.Parallel()
	shared := filepath.Join(t.TempDir(), "shared")
	b, err := Listen(Address{Listen: "127.0.0.1:0", Dir: t.TempDir(), Run: "x", Blobs: shared})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if ticket, err := ReadTicket(b.Join); err != nil || ticket.Blobs != shared {
		t.Errorf("the join file names %q: %v", ticket.Blobs, err)
	}
	toil(t, join(t, b, "a"), time.Millisecond)
	do(t, b, 4, false)
	if n := pieces(t, b, out); n > 0 {
		t.Errorf("%d pieces of blobs went through the server", n)
	}
	if files, err := os.ReadDir(shared); err != nil || len(files) != 5 { // with the one by which it was tried
		t.Errorf("%d files are shared, want 5: %v", len(files), err)
	}
}
