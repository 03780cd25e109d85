//go:build !nobroker

package natsio

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// TestBounds: the memory that workers can fill is bounded: streams, words, results that are kept; and after all of it
// another worker's job is done.
func TestBounds(t *testing.T) {
	b := listen(t, t.TempDir())
	room := int64(3 << 20)
	b.Hub.room = room
	if err := b.Hub.furnish(t.Context()); err != nil {
		t.Fatal(err)
	}
	liar := join(t, b, "liar")
	for i := range 8 { // of 1 MiB
		data := bytes.Repeat([]byte{byte(i)}, 1<<20)
		if err := liar.send(t.Context(), liar.outSubject(liar.worker, fleet.HashOf(data)), data); err != nil {
			t.Fatal(err)
		}
	}
	for stream, most := range map[string]int64{out: room, done: mostDone, work: mostWork} {
		s, err := b.Hub.js.Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		info, err := s.Info(t.Context(), jetstream.WithSubjectFilter(">"))
		if err != nil {
			t.Fatal(err)
		}
		if info.Config.MaxBytes != most || int64(info.State.Bytes) > most {
			t.Errorf("stream %s may have %d bytes, and has %d", stream, info.Config.MaxBytes, info.State.Bytes)
		}
	}
	if _, err := liar.js.Publish(t.Context(), liar.doneSubject(liar.worker, fleet.Hash{1}), make([]byte, mostKept+1)); err == nil {
		t.Error("a result's word may have any length")
	}
	long := []byte(fmt.Sprintf(`{"kind":"hello","worker":"liar","about":{"host":%q}}`, strings.Repeat("x", mostWord)))
	for range 20 {
		if err := liar.nc.Publish(liar.subject(saySub+liar.worker), long); err != nil {
			t.Fatal(err)
		}
	}
	if err := liar.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	honest := join(t, b, "honest")
	f := fleet.New(fleet.Options{Hub: b.Hub, Rules: fleet.Usual()})
	toil(t, honest, 0)
	jobs := jobsOf(3)
	got, err := f.Do(t.Context(), fleet.Work{Jobs: jobs, Check: func(fleet.Job, []byte) error { return nil }})
	for i, j := range jobs {
		if err != nil || !bytes.Equal(got[i], answer(j)) {
			t.Fatal(i, err)
		}
	}
	if f.Workers() != 1 {
		t.Errorf("%d workers were heard, and one said what can be heard", f.Workers())
	}
}

// TestConnections: strangers get at most half of the descriptors that this process may have.
func TestConnections(t *testing.T) {
	all := descriptors()
	if n := mostConnections(); all > 0 && uint64(n) >= all/2 || n < 8 {
		t.Errorf("%d connections, of %d descriptors", n, all)
	}
	id, err := newIdentity()
	if err != nil {
		t.Fatal(err)
	}
	if o, err := options(id, "127.0.0.1", 0, t.TempDir()); err != nil || o.MaxConn != mostConnections() || o.MaxPayload > 1<<20 {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestLastWords: the end of a run is not reported as a loss of the trainer.
func TestLastWords(t *testing.T) {
	t.Parallel()
	for _, over := range []bool{true, false} {
		b, err := Listen(Address{Listen: net.JoinHostPort("127.0.0.1", "0"), Dir: t.TempDir(), Run: "test"})
		if err != nil {
			t.Fatal(err)
		}
		ticket, err := ReadTicket(b.Join)
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var said []string
		l, err := Join(t.Context(), ticket, "w", fleet.Rolls, func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, fmt.Sprintf(format, args...))
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.hail(t.Context()); err != nil {
			t.Fatal(err)
		}
		if over {
			if err := b.Hub.Over(); err != nil {
				t.Error(err)
			}
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(3 * farewell)
		mu.Lock()
		if lost := slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, "out of reach") }); lost == over {
			t.Errorf("the run is over: %v; it says %q", over, said)
		}
		mu.Unlock()
		_ = l.Close()
	}
}
