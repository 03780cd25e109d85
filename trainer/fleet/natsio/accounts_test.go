//go:build !nobroker

package natsio

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

// seedFile is a new key: the file for --creds, and its public half.
func seedFile(t *testing.T, name string) (path, public string) {
	t.Helper()
	seed, err := newSeed()
	if err != nil {
		t.Fatal(err)
	}
	if public, err = publicOf(seed); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(seed+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, public
}

// deployed is a cluster of n servers by the files of deploy/nats.
func deployed(t *testing.T, n int, trainer, worker string) (urls, ca string) {
	t.Helper()
	pair, ca := authority(t)
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	_, urls = clustered(t, n, func(i int, at string, routes []string) (*server.Options, error) {
		for name, value := range map[string]string{"NAME": fmt.Sprint("s", i), "LISTEN": "127.0.0.1:-1", "CLUSTER": at, "ROUTES": `["nats://` + strings.Join(routes, `", "nats://`) + `"]`,
			"STORE": t.TempDir(), "CERT": ca, "KEY": key, "TRAINER": trainer, "WORKER": worker} {
			t.Setenv("DARKROOM_NATS_"+name, value)
		}
		return server.ProcessConfigFile("../../../deploy/nats/server.conf")
	})
	return urls, ca
}

// TestAccounts: on a cluster by the files of deploy/nats workers do their jobs with a key of their own, and nothing
// that they may ask, whatever subject is to be answered, comes to the trainer's account.
func TestAccounts(t *testing.T) {
	trainer, trainers := seedFile(t, "trainer.seed")
	worker, workers := seedFile(t, "worker.seed")
	at, ca := deployed(t, 2, trainers, workers)
	attach := func(creds string) (*Broker, error) {
		return Attach(Remote{URLs: at, Authority: ca, Credentials: creds, Dir: t.TempDir(), Run: "r"})
	}
	if _, err := attach(""); err == nil {
		t.Error("somebody without a key was let in")
	}
	if _, err := attach(ca); err == nil || !strings.Contains(err.Error(), "neither a user's JWT nor the seed of a key") {
		t.Errorf("a certificate is taken for a key: %v", err)
	}
	b, err := attach(trainer)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.Ticket.Credentials = worker
	l, err := Join(t.Context(), b.Ticket, "w", "", t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	blob, err := b.Hub.Put(t.Context(), []byte("weights"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := l.Get(t.Context(), blob); err != nil || string(got) != "weights" {
		t.Errorf("the worker has %q, %v", got, err)
	}
	brief, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := l.js.CreateStream(brief, jetstream.StreamConfig{Name: "OWN", Subjects: []string{"own"}, Storage: jetstream.MemoryStorage}); err == nil {
		t.Error("a worker has made a stream")
	}
	toil(t, l, time.Millisecond)
	if n := do(t, b, 12, false).Counts(); n.Done != 12 {
		t.Errorf("%+v", n)
	}
	other, err := attach(trainer) // of another run
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	other.Ticket.Credentials = worker
	f := forge(t, other)
	f.obeyed()
	f.mu.Lock()
	f.fell, f.streams = nil, f.state()
	f.mu.Unlock()
	f.attack(true)
}
