package natsio

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// TestRates measures what the carrier costs, over the loopback with TLS: DARKROOM_FLEET=rates, and -v.
func TestRates(t *testing.T) {
	if os.Getenv("DARKROOM_FLEET") != "rates" {
		t.Skip("measures for some seconds; DARKROOM_FLEET=rates asks for it (make fleet)")
	}
	b := listen(t, t.TempDir())
	l := join(t, b, "w")
	ctx := context.Background()
	data := make([]byte, 64<<20)
	for i := range data {
		data[i] = byte(i * i >> 7)
	}
	began := time.Now()
	name, err := b.Hub.Put(ctx, data)
	if err != nil {
		t.Fatal(err)
	}
	put := time.Since(began)
	began = time.Now()
	if _, err := l.Get(ctx, name); err != nil {
		t.Fatal(err)
	}
	get := time.Since(began)
	data[0]++
	began = time.Now()
	if _, err := l.Put(ctx, data); err != nil {
		t.Fatal(err)
	}
	sent := time.Since(began)
	rate := func(d time.Duration) float64 { return float64(len(data)) / 1e6 / d.Seconds() }
	t.Logf("64 MiB: the trainer puts %.0f MB/s, a worker gets %.0f MB/s and puts %.0f MB/s", rate(put), rate(get), rate(sent))
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
	began = time.Now()
	for range many {
		j, err := l.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Say(ctx, fleet.Event{Kind: fleet.Done, Job: j.Name()}); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("one worker takes, answers and is heard %.0f times a second", many/time.Since(began).Seconds())
}
