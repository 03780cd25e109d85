//go:build !nobroker

package natsio

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// enters reports whether a worker of that name comes in by a key of its own, which a join key vouches for.
func enters(t *testing.T, ticket Ticket, own, name string) bool {
	t.Helper()
	config, err := trusts(ticket.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	public, err := publicOf(own)
	if err != nil {
		t.Fatal(err)
	}
	by, err := nkeys.FromSeed([]byte(ticket.Seed))
	if err != nil {
		t.Fatal(err)
	}
	signature, err := by.Sign(introduction(name, public))
	if err != nil {
		t.Fatal(err)
	}
	nc, err := connect(ticket.urls(), own, name, config, nats.Token(base64.RawURLEncoding.EncodeToString(signature)))
	if err != nil {
		return false
	}
	nc.Close()
	return true
}

// TestRevoked: who is dismissed is cut off; neither its key nor the join file that it had opens anything any more,
// whatever name it gives. Who was there stays, and finds the trainer that is resumed.
func TestRevoked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, err := Listen(Address{Listen: "127.0.0.1:0", Dir: dir, Run: "test", Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	old := b.Ticket
	own, err := newSeed()
	if err != nil {
		t.Fatal(err)
	}
	if !enters(t, old, own, "other") {
		t.Fatal("a worker with the join file does not come in")
	}
	bad, good := join(t, b, "bad"), join(t, b, "good")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, name := range []string{"bad", "other"} {
		if err := b.Hub.Dismiss(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := bad.Next(ctx); !errors.Is(err, fleet.ErrDismissed) {
		t.Errorf("it waits for a job: %v", err)
	}
	for !bad.nc.IsClosed() && ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
	}
	now, err := ReadTicket(b.Join)
	if err != nil {
		t.Fatal(err)
	}
	fresh, err := newSeed()
	if err != nil {
		t.Fatal(err)
	}
	for what, in := range map[string]bool{
		"its key by the new join file":               enters(t, now, own, "other"),
		"its key under another name":                 enters(t, now, own, "another"),
		"another key by the join file that it had":   enters(t, old, fresh, "new"),
		"another key under the name of a worker":     enters(t, now, fresh, "good"),
		"a connection that was cut off and is there": !bad.nc.IsClosed(),
	} {
		if in {
			t.Errorf("%s is let in", what)
		}
	}
	if !enters(t, now, fresh, "new") {
		t.Error("the new join file lets nobody in")
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Listen(Address{Listen: old.Addresses[0], Dir: dir, Run: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	for ctx.Err() == nil && !good.nc.IsConnected() {
		time.Sleep(20 * time.Millisecond)
	}
	toil(t, good, time.Millisecond)
	do(t, again, 2, false)
	if enters(t, now, own, "other") || enters(t, old, own, "other") {
		t.Error("after the trainer began anew a dismissed worker's key is taken")
	}
}

// TestRevokedEarly: a worker is dismissed when the trainer was resumed and nobody is back yet: its key opens nothing,
// and the others need no new join file.
func TestRevokedEarly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, err := Listen(Address{Listen: "127.0.0.1:0", Dir: dir, Run: "test"})
	if err != nil {
		t.Fatal(err)
	}
	old, keys := b.Ticket, map[string]string{}
	for _, name := range []string{"bad", "good"} {
		if keys[name], err = newSeed(); err != nil {
			t.Fatal(err)
		}
		if !enters(t, old, keys[name], name) {
			t.Fatalf("%s does not come in", name)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err = Listen(Address{Listen: old.Addresses[0], Dir: dir, Run: "test"}); err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Hub.Dismiss(t.Context(), "bad"); err != nil {
		t.Fatal(err)
	}
	now, err := ReadTicket(b.Join)
	if err != nil {
		t.Fatal(err)
	}
	if now.Seed == old.Seed || enters(t, old, keys["bad"], "bad") || enters(t, now, keys["bad"], "bad") {
		t.Error("who was dismissed is let in")
	}
	if !enters(t, old, keys["good"], "good") {
		t.Error("who was there before is not let in")
	}
}

// TestListenFails: a server that does not come up says so at once, and leaves nothing open.
func TestListenFails(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	at := freeAddress(t)
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	fails := func(listen, says string) {
		t.Helper()
		began := time.Now()
		if _, err := Listen(Address{Listen: listen, Dir: dir, Run: "test", Blobs: byPeers + ":" + port}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want %q", err, says)
		}
		if d := time.Since(began); d > 15*time.Second {
			t.Errorf("it took %v to see that", d)
		}
		if again, err := net.Listen("tcp", at); err != nil {
			t.Errorf("the port of its peers stays open: %v", err)
		} else {
			again.Close()
		}
		if _, err := os.Stat(filepath.Join(dir, scratchDir)); !os.IsNotExist(err) {
			t.Errorf("%s stays: %v", scratchDir, err)
		}
	}
	fails(taken.Addr().String(), "is the port taken")
	id, err := identityIn(dir)
	if err != nil {
		t.Fatal(err)
	}
	id.Worker = "none"
	if err := writeSecret(filepath.Join(dir, identityFile), id); err != nil {
		t.Fatal(err)
	}
	fails("127.0.0.1:0", "hint: delete it")
}

// TestNames: a worker speaks in its own name alone, which nobody else has while it is there;
// the trainer's are nobody's.
func TestNames(t *testing.T) {
	b := listen(t, t.TempDir())
	l := join(t, b, "a")
	if _, err := Join(t.Context(), b.Ticket, "a", fleet.Rolls, t.Logf); err == nil {
		t.Error("two workers of one name are there")
	}
	for _, name := range []string{fleet.Here, trainerName} {
		if _, err := Join(t.Context(), b.Ticket, name, fleet.Rolls, t.Logf); err == nil {
			t.Errorf("a worker is called %s", name)
		}
		seed, err := newSeed()
		if err != nil {
			t.Fatal(err)
		}
		if enters(t, b.Ticket, seed, name) {
			t.Errorf("the server lets in a worker that is called %s", name)
		}
	}
	text, err := json.Marshal(fleet.Event{Kind: fleet.Hello, Worker: "b"})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.nc.Publish(l.subject(saySub+"b"), text); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := l.Send(ctx, fleet.Event{Kind: fleet.Bye}); err != nil {
		t.Fatal(err)
	}
	if e := <-b.Hub.Events(); e.Worker != "a" {
		t.Errorf("%s was heard, and a spoke", e.Worker)
	}
	if other, err := l.nc.SubscribeSync(inboxOf("b") + ".>"); err == nil {
		_ = l.nc.Flush()
		time.Sleep(50 * time.Millisecond)
		if other.IsValid() && l.nc.LastError() == nil {
			t.Error("a worker hears what another is answered")
		}
	}
}
