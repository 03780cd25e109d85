package natsio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/darkroom-rl/darkroom/trainer/fleet/peer"
)

// TestPeers: blobs go past the server, from any holder; the one who asks next is served by a worker when the trainer
// is busy, and by the trainer when that worker is gone.
func TestPeers(t *testing.T) {
	t.Parallel()
	b, err := Listen(Address{Listen: "127.0.0.1:0", Dir: t.TempDir(), Run: "test", Blobs: byPeers})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	weights := bytes.Repeat([]byte("weights "), 1<<16)
	name, err := b.Hub.Put(ctx, weights)
	if err != nil {
		t.Fatal(err)
	}
	one, two := join(t, b, "one"), join(t, b, "two")
	get := func(l *Link) {
		t.Helper()
		if got, err := l.Get(ctx, name); err != nil || !bytes.Equal(got, weights) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	get(one)
	tracker := b.Hub.past.(*origin).tracker
	here, there := b.Hub.past.(*origin).Place, one.past.(*branch).Place
	for i, want := range []peer.Place{here, there, here} { // who serves the fewest
		if at, _, free := tracker.Where(name.Hash, peer.Place{At: fmt.Sprint(i)}); !free || at != want {
			t.Errorf("asker %d is sent to %v, want %v", i, at, want)
		}
	}
	if err := one.past.(*branch).Store.Close(); err != nil {
		t.Fatal(err)
	}
	get(two) // is sent to worker one, who answers no more
	if at, _, free := tracker.Where(name.Hash, peer.Place{At: "next"}); !free || at != two.past.(*branch).Place {
		t.Errorf("the next one is sent to %v, want worker two", at)
	}
	toil(t, two, time.Millisecond)
	do(t, b, 12, false)
	for _, stream := range []string{in, out} {
		if n := pieces(t, b, stream); n > 0 {
			t.Errorf("%d pieces of blobs went through the server", n)
		}
	}
	if err := b.Hub.Drop(ctx, name.Hash); err != nil {
		t.Fatal(err)
	}
	if _, err := join(t, b, "late").Get(ctx, name); !errors.Is(err, fleet.ErrNoBlob) {
		t.Errorf("what was dropped: %v", err)
	}
	for text, ok := range map[string]bool{"peer": true, "peer:4223": true, "peer:x": false, "peer:0": false, "/a/folder": true} {
		if err := (Address{Listen: ":0", Blobs: text}).Check(); (err == nil) != ok {
			t.Errorf("--blobs %s: %v", text, err)
		}
	}
}
