//go:build unix

package natsio

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// TestRates measures the carrier's cost, over the loopback with TLS: -long -v.
func TestRates(t *testing.T) {
	if !*long {
		t.Skip("measures for some seconds; left out without -long (make fleet)")
	}
	ctx := context.Background()
	for _, by := range []string{"", t.TempDir(), byPeers} {
		carried(t, by)
	}
	b := listen(t, t.TempDir())
	l := join(t, b, "w")
	var waits []time.Duration
	for i, j := range jobsOf(200) {
		taken := make(chan time.Time)
		go func() {
			_, err := l.Next(ctx)
			if err != nil {
				t.Error(err)
			}
			taken <- time.Now()
		}()
		time.Sleep(5 * time.Millisecond) // until it waits
		began := time.Now()
		if err := b.Hub.Offer(ctx, j.Name(), j, false); err != nil {
			t.Fatal(i, err)
		}
		waits = append(waits, (<-taken).Sub(began))
	}
	slices.Sort(waits)
	t.Logf("from publishing a job to its worker: median %v, 95 %% within %v", waits[100], waits[190])
	const many = 2000
	for _, j := range jobsOf(many) {
		if err := b.Hub.Offer(ctx, j.Name(), j, false); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	for range many {
		j, err := l.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Send(ctx, fleet.Event{Kind: fleet.Done, Job: j.Name()}); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("one worker takes, answers and is heard %.0f times a second", many/time.Since(began).Seconds())
}

// carried measures the bytes through the server, by a folder or by peers.
func carried(t *testing.T, by string) {
	b, err := Listen(Address{Listen: "127.0.0.1:0", Dir: t.TempDir(), Run: "rates", Blobs: by})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	l := join(t, b, "w")
	data := make([]byte, 64<<20)
	for i := range data {
		data[i] = byte(i * i >> 7)
	}
	rate := func(what string, do func() error) string {
		began, before := time.Now(), spent(t)
		if err := do(); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%s %.0f MB/s, %.2f s of CPU", what, float64(len(data))/1e6/time.Since(began).Seconds(), (spent(t) - before).Seconds())
	}
	var name fleet.Blob
	put := rate("the trainer puts", func() (err error) {
		name, err = b.Hub.Put(t.Context(), data)
		return err
	})
	get := rate("a worker gets", func() error {
		_, err := l.Get(t.Context(), name)
		return err
	})
	data[0]++
	sent := rate("a worker puts", func() error {
		_, err := l.Put(t.Context(), data)
		return err
	})
	if by == "" {
		by = "server"
	}
	t.Logf("64 MiB by %s: %s; %s; %s", by, put, get, sent)
}

// spent is this process's CPU time.
func spent(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
