//go:build !nobroker

package natsio

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/nats-io/nkeys"
)

// TestRevoke: the owner of a run's folder takes a worker's key back: a trainer at work cuts the worker off and its
// fleets get the event, and one that is not refuses the worker when it is resumed. On a foreign server its messages
// are ignored.
func TestRevoke(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, err := Listen(Address{Listen: "127.0.0.1:0", Dir: dir, Run: "test", Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]Ticket{}
	links := map[string]*Link{}
	for _, name := range []string{"one", "two", "three"} {
		if keys[name], err = b.Ticket.WithKey(); err != nil {
			t.Fatal(err)
		}
		if links[name], err = Join(t.Context(), keys[name], name, fleet.Rolls, t.Logf); err != nil {
			t.Fatal(err)
		}
		defer links[name].Close()
	}
	if _, err := Revoke(dir, "nobody", ""); err == nil || !strings.Contains(err.Error(), "one three two") {
		t.Errorf("a worker that never came: %v", err)
	}
	if asked, err := Revoke(dir, "one", ""); err != nil || !asked {
		t.Fatalf("by a trainer at work: %v, %v", asked, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := links["one"].Next(ctx); !errors.Is(err, fleet.ErrDismissed) {
		t.Errorf("it waits for a job: %v", err)
	}
	if e := <-b.Hub.Events(); e.Kind != fleet.Dismissed || e.Worker != "one" {
		t.Errorf("the fleet hears %+v", e)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if asked, err := Revoke(dir, "two", ""); err != nil || asked {
		t.Fatalf("by the folder: %v, %v", asked, err)
	}
	if b, err = Listen(Address{Listen: b.Ticket.Addresses[0], Dir: dir, Run: "test"}); err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for name, in := range map[string]bool{"one": false, "two": false, "three": true} {
		links[name].Close()
		l, err := Join(t.Context(), keys[name], name, fleet.Rolls, t.Logf)
		if (err == nil) != in || !in && !strings.Contains(err.Error(), "copy it again") {
			t.Errorf("worker %s: %v", name, err)
		}
		if err == nil {
			l.Close()
		}
	}
	if _, err := Revoke(t.TempDir(), "one", ""); err == nil || !strings.Contains(err.Error(), "hint:") {
		t.Errorf("no run's folder: %v", err)
	}
}

// TestRevokeRemote: the same on a server of somebody else's.
func TestRevokeRemote(t *testing.T) {
	dir := t.TempDir()
	b, err := Attach(Remote{URLs: "nats://" + aServer(t, "127.0.0.1"), Dir: dir, Run: "r"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	l := join(t, b, "one")
	says := func() error { return errors.Join(l.Send(t.Context(), fleet.Event{Kind: fleet.Hello}), l.nc.Flush()) }
	if err := says(); err != nil {
		t.Fatal(err)
	}
	<-b.Hub.Events()
	if asked, err := Revoke(dir, "one", ""); err != nil || !asked {
		t.Fatalf("%v, %v", asked, err)
	}
	if e := <-b.Hub.Events(); e.Kind != fleet.Dismissed {
		t.Errorf("the fleet hears %+v", e)
	}
	if err := says(); err != nil {
		t.Fatal(err)
	}
	select {
	case e := <-b.Hub.Events():
		t.Errorf("the fleet hears %+v of who was revoked", e)
	case <-time.After(200 * time.Millisecond):
	}
}

// TestJoinUntil: after its last day a join file lets nobody new in, and earlier workers stay.
func TestJoinUntil(t *testing.T) {
	dir := t.TempDir()
	b, err := Listen(Address{Listen: "127.0.0.1:0", Dir: dir, Run: "test", Until: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	came, err := b.Ticket.WithKey()
	if err != nil {
		t.Fatal(err)
	}
	l, err := Join(t.Context(), came, "came", fleet.Rolls, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err = Listen(Address{Listen: b.Ticket.Addresses[0], Dir: dir, Run: "test", Until: time.Now().Add(-time.Hour)}); err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if l, err := Join(t.Context(), b.Ticket, "late", fleet.Rolls, t.Logf); err == nil || !strings.Contains(err.Error(), "lets nobody new in after") {
		t.Errorf("who comes late: %v", err)
		if err == nil {
			l.Close()
		}
	}
	if l, err = Join(t.Context(), came, "came", fleet.Rolls, t.Logf); err != nil {
		t.Errorf("who had come: %v", err)
	} else {
		l.Close()
	}
}

// TestSpoilt: keys that are spoilt, or not all there, are refused with the file's name and the remedy; a name that is
// taken, with a remedy; files of keys that others may read are found.
func TestSpoilt(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, identityFile)
	for _, text := range []string{"null", "{}", `{"certificate": "x", "key": "y"}`, "{", strings.Repeat(" ", mostIdentity+1)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Listen(Address{Listen: "127.0.0.1:0", Dir: dir, Run: "test"}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	b := listen(t, dir)
	join(t, b, "w")
	if _, err := Join(t.Context(), b.Ticket, "w", fleet.Rolls, t.Logf); err == nil || !strings.Contains(err.Error(), "--name") {
		t.Errorf("a second worker of a name: %v", err)
	}
	if all := OpenFiles(dir); len(all) > 0 {
		t.Errorf("others may read %v", all)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if all := OpenFiles(dir); len(all) != 1 || all[0] != path {
		t.Errorf("others may read %v, and %s is open", all, path)
	}
}

// TestRolesOfOne: a worker of two roles that is dismissed in one is dismissed in both.
func TestRolesOfOne(t *testing.T) {
	t.Parallel()
	b := listen(t, t.TempDir())
	ticket, err := b.Ticket.WithKey()
	if err != nil {
		t.Fatal(err)
	}
	var links []*Link
	for name, role := range map[string]fleet.Role{"a": fleet.Rolls, "a-score": fleet.Scorers} {
		l, err := Join(t.Context(), ticket.Further(), name, role, t.Logf)
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
		l, err := Join(t.Context(), ticket, name, role, t.Logf)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if err := errors.Join(l.Send(t.Context(), fleet.Event{Kind: fleet.Hello}), l.nc.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	<-b.Hub.Events() // it came
	if e := <-b.Hub.As(fleet.Scorers).Events(); e.Worker != "a-score" {
		t.Errorf("%+v", e)
	}
	if err := b.Hub.Dismiss(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	hears(t, b, "a-score")
}

// hears checks the next event of another role's fleet: that one is dismissed.
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
