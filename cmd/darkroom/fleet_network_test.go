package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/darkroom-rl/darkroom/record/ledger"
)

// Networks that fail, and a server that loses all it holds, between whole processes: -long
// (make fleet).

// networks skips a test without its flag.
func networks(t *testing.T) {
	t.Helper()
	if !*long {
		t.Skip("takes minutes; left out without -long (make fleet)")
	}
}

// abroad is a run alone, and one that a trainer does with workers that are somewhere else.
type abroad struct {
	*testing.T
	dir     string
	trainer *exec.Cmd
	log     *bytes.Buffer
	workers []*exec.Cmd
}

// away starts a trainer, with more arguments, of a run that was done alone before.
func away(t *testing.T, iterations int, args ...string) *abroad {
	a := &abroad{T: t, dir: t.TempDir()}
	prepare(t, a.dir, "pictures", iterations)
	if cmd, log := started(t, a.dir, "train", "killed.toml", "--out", "alone/run"); cmd.Wait() != nil {
		t.Fatal(log)
	}
	a.trainer, a.log = started(t, a.dir, append([]string{"train", "killed.toml", "--out", "helped/run", "--leave-rolls", "--audit", "0.1"}, args...)...)
	t.Cleanup(func() {
		for _, cmd := range append(a.workers, a.trainer) {
			_ = cmd.Process.Kill() // it may have ended
		}
	})
	for range 1200 {
		if _, err := os.Stat(a.join()); err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	return a
}

func (a *abroad) join() string { return filepath.Join(a.dir, "helped", "run", "join") }

// jobs is how many are done, by worker.
func (a *abroad) jobs() map[string]int {
	by := map[string]int{}
	shares, err := ledger.ReadShares(filepath.Join(a.dir, "helped", "run", ledger.FleetFile))
	for _, s := range shares {
		if err == nil {
			by[s.Worker] = s.Jobs
		}
	}
	return by
}

// ends waits for the run, and compares it.
func (a *abroad) ends() {
	a.Helper()
	if err := a.trainer.Wait(); err != nil {
		a.Fatalf("%v\n%s", err, a.log)
	}
	by := a.jobs()
	for _, w := range a.workers {
		_ = w.Process.Kill()
		_ = w.Wait()
	}
	sameRun(a.T, filepath.Join(a.dir, "alone", "run"), filepath.Join(a.dir, "helped", "run"))
	a.Logf("who did how many jobs: %v", by)
	for line := range strings.Lines(a.log.String()) {
		if strings.HasPrefix(line, "fleet: ") {
			a.Log(strings.TrimSpace(line))
		}
	}
}

// TestFleetStreams: all streams of the server are deleted every 5 s while two workers roll.
func TestFleetStreams(t *testing.T) {
	networks(t)
	a := away(t, 30, "--listen", "127.0.0.1:0")
	for n := range 2 {
		w, _ := started(t, a.dir, "worker", "--join", a.join(), "--name", fmt.Sprint("w", n))
		a.workers = append(a.workers, w)
	}
	nc := a.asTrainer()
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	deleted := atomic.Int64{}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			select {
			case <-ended:
				return
			case <-time.After(5 * time.Second):
			}
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			for _, name := range []string{"WORK", "DONE", "IN", "OUT"} {
				if js.DeleteStream(ctx, name) == nil {
					deleted.Add(1)
				}
			}
			cancel()
		}
	}()
	a.ends()
	close(ended)
	<-gone
	t.Logf("%d streams were deleted", deleted.Load())
	if deleted.Load() < 8 {
		t.Error("too few to say anything")
	}
}

// asTrainer is a second connection by the trainer's key.
func (a *abroad) asTrainer() *nats.Conn {
	a.Helper()
	var id struct{ Certificate, Trainer string }
	var ticket struct{ Addresses []string }
	for path, into := range map[string]any{filepath.Join(filepath.Dir(a.join()), "broker.json"): &id, a.join(): &ticket} {
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			a.Fatal(err)
		}
	}
	pair, err := nkeys.FromSeed([]byte(id.Trainer))
	if err != nil {
		a.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		a.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(id.Certificate))
	nc, err := nats.Connect("tls://"+ticket.Addresses[0], nats.Nkey(public, pair.Sign), nats.MaxReconnects(-1),
		nats.Secure(&tls.Config{RootCAs: pool, ServerName: "darkroom-trainer", MinVersion: tls.VersionTLS13}))
	if err != nil {
		a.Fatal(err)
	}
	return nc
}
