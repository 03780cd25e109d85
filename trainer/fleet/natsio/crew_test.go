package natsio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// Trainers and workers with the server between them, for tests.

// listen starts a server on a free port of the loopback, which ends with the test.
func listen(t *testing.T, dir string) *Broker {
	t.Helper()
	b, err := Listen(Address{Listen: "127.0.0.1:0", Dir: dir, Run: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// join connects a worker by the join file.
func join(t *testing.T, b *Broker, name string) *Link {
	t.Helper()
	ticket, err := ReadTicket(b.Join)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Join(t.Context(), ticket, name, fleet.Rolls, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func jobsOf(n int) (all []fleet.Job) {
	for i := range n {
		all = append(all, fleet.Job{Keys: []fleet.Keys{{Prompt: i, Samples: 1}}})
	}
	return all
}

func answer(j fleet.Job) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "result %d ", j.Keys[0].Prompt), 20000)
}

// toil lets a worker do jobs until the test ends.
func toil(t *testing.T, l *Link, each time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	w := fleet.Worker{Name: l.worker, Link: l, Beat: 200 * time.Millisecond, Logf: t.Logf, Do: func(ctx context.Context, j fleet.Job) ([]byte, error) {
		select {
		case <-time.After(each):
			return answer(j), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	done.Go(func() {
		if err := w.Run(ctx); err != nil && !errors.Is(err, fleet.ErrOver) {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
}

// do has jobs done by the hub's workers, and checks the results.
func do(t *testing.T, b *Broker, n int, local bool) *fleet.Fleet {
	t.Helper()
	f := fleet.New(fleet.Options{Hub: b.Hub, Local: local, Logf: t.Logf, Rules: fleet.Rules{Lease: 4 * time.Second, Hedge: 0, Silence: 2 * time.Second, Tries: 5}})
	jobs := jobsOf(n)
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	got, err := f.Do(ctx, fleet.Work{Jobs: jobs, Here: func(_ context.Context, j fleet.Job) ([]byte, error) { return answer(j), nil }, Check: func(fleet.Job, []byte) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	for i, j := range jobs {
		if !bytes.Equal(got[i], answer(j)) {
			t.Errorf("job %d has %d bytes, want %d", i, len(got[i]), len(answer(j)))
		}
	}
	return f
}

// freeAddress is one of the loopback at which nobody listens. Its port is below those that systems hand out (from
// 32768 on), so that no other process gets it meanwhile by asking for any.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", 20000+rand.IntN(12000)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return l.Addr().String()
	}
	t.Fatal("no port of a hundred is free")
	return ""
}
