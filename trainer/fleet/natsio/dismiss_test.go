//go:build !nobroker

package natsio

import (
	"encoding/base64"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// TestRolesOfOne: a worker of two roles that is dismissed in one is dismissed in both.
func TestRolesOfOne(t *testing.T) {
	b := listen(t, t.TempDir())
	ticket, err := b.Ticket.WithKey()
	if err != nil {
		t.Fatal(err)
	}
	var links []*Link
	for name, role := range map[string]fleet.Role{"a": fleet.Rolls, "a-score": fleet.Scorers} {
		l, err := Join(ticket.Further(), name, role, t.Logf)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		links = append(links, l)
	}
	other := join(t, b, "b")
	if err := b.Hub.Dismiss(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && !(links[0].nc.IsClosed() && links[1].nc.IsClosed()); {
		time.Sleep(20 * time.Millisecond)
	}
	if !links[0].nc.IsClosed() || !links[1].nc.IsClosed() || !other.nc.IsConnected() {
		t.Errorf("cut off: %v, %v, and another: %v", links[0].nc.IsClosed(), links[1].nc.IsClosed(), !other.nc.IsConnected())
	}
	hears(t, b, "a-score")
}

// TestForgottenKey: of more workers than are written down one that is not there is forgotten. When it is dismissed, its
// key opens nothing all the same.
func TestForgottenKey(t *testing.T) {
	id, err := newIdentity()
	if err != nil {
		t.Fatal(err)
	}
	own, err := newSeed()
	if err != nil {
		t.Fatal(err)
	}
	public, err := publicOf(own)
	if err != nil {
		t.Fatal(err)
	}
	join, err := nkeys.FromSeed([]byte(id.Worker))
	if err != nil {
		t.Fatal(err)
	}
	signature, err := join.Sign(introduction("forgotten", public))
	if err != nil {
		t.Fatal(err)
	}
	token := base64.RawURLEncoding.EncodeToString(signature)
	g := newRoster(t.TempDir(), id, nil)
	g.id.Known = map[string]string{}
	for i := range mostKnown {
		g.id.Known[fmt.Sprint("w", i)] = fmt.Sprint("key ", i)
	}
	g.remember("new", "its key")
	if len(g.id.Known) != mostKnown || g.id.Known["new"] == "" {
		t.Errorf("%d workers are written down, of %d", len(g.id.Known), mostKnown)
	}
	if !g.knows("forgotten", public, token) {
		t.Error("a worker that was forgotten needs another key")
	}
	if _, err := g.revoke("forgotten"); err != nil {
		t.Fatal(err)
	}
	if g.knows("forgotten", public, token) {
		t.Error("a worker that was forgotten and dismissed is let in")
	}
	if !g.knows("new", "its key", "") {
		t.Error("who is written down is not let in")
	}
}

// TestRemoteRoles: a worker of two roles is dismissed in both where the server knows no keys of workers.
func TestRemoteRoles(t *testing.T) {
	b, err := Attach(Remote{URLs: "nats://" + aServer(t, "127.0.0.1"), Dir: t.TempDir(), Run: "a run"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ticket, err := b.Ticket.WithKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, role := range map[string]fleet.Role{"a": fleet.Rolls, "a-score": fleet.Scorers} {
		l, err := Join(ticket, name, role, t.Logf)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if err := errors.Join(l.Say(t.Context(), fleet.Event{Kind: fleet.Hello}), l.nc.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	<-b.Hub.Events() // it was heard
	if e := <-b.Hub.As(fleet.Scorers).Events(); e.Worker != "a-score" {
		t.Errorf("%+v", e)
	}
	if err := b.Hub.Dismiss(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	hears(t, b, "a-score")
}

// hears holds what the fleet of another role hears next of workers: that one is dismissed.
func hears(t *testing.T, b *Broker, worker string) {
	t.Helper()
	for {
		select {
		case e := <-b.Hub.As(fleet.Scorers).Events():
			if e.Kind != fleet.Dismissed {
				continue
			}
			if e.Worker != worker {
				t.Errorf("%s is dismissed, and not %s", e.Worker, worker)
			}
			return
		case <-time.After(20 * time.Second):
			t.Errorf("the fleet of the other role does not hear that %s is dismissed", worker)
			return
		}
	}
}
