//go:build !nobroker

package natsio

import (
	"bytes"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// slowly passes bytes between a server and its clients, towards the server at most perSecond of them while that is
// not 0.
func slowly(t *testing.T, server string, perSecond *atomic.Int64) string {
	t.Helper()
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { at.Close() })
	go func() {
		for {
			in, err := at.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", server)
			if err != nil {
				return
			}
			go func() { defer in.Close(); _, _ = io.Copy(in, up) }()
			go func() {
				defer up.Close()
				piece := make([]byte, 16<<10)
				for {
					n, err := in.Read(piece)
					if err != nil {
						return
					}
					if _, err := up.Write(piece[:n]); err != nil {
						return
					}
					if rate := perSecond.Load(); rate > 0 {
						time.Sleep(time.Duration(n) * time.Second / time.Duration(rate))
					}
				}
			}()
		}
	}()
	return at.Addr().String()
}

// TestRefill: weights that a server has lost come back although their way takes longer than ten seconds, and jobs are
// offered and withdrawn meanwhile.
func TestRefill(t *testing.T) {
	if !*long {
		t.Skip("waits for a slow wire: -long, .ci/run slow")
	}
	t.Parallel()
	var rate atomic.Int64
	b, err := Attach(Remote{URLs: "nats://" + slowly(t, aServer(t, "127.0.0.1"), &rate), Dir: t.TempDir(), Run: "slow"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	data := bytes.Repeat([]byte("weights "), 24<<17)
	blob, err := b.Hub.Put(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.Hub.js.Stream(t.Context(), b.Hub.of(in))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	isThere := func() bool { return b.Hub.complete(t.Context(), in, b.Hub.inSubject(blob.Hash), blob) }
	if isThere() {
		t.Fatal("the server has lost nothing")
	}
	rate.Store(2 << 20) // 24 MiB take 12 seconds; 8 MiB of them are ahead of the offers
	b.Hub.breaks()
	time.Sleep(2 * time.Second) // the first pieces are under way
	began, job := time.Now(), jobsOf(1)[0]
	if err := b.Hub.Offer(t.Context(), job.Name(), job, false); err != nil {
		t.Fatal(err)
	}
	if waited := time.Since(began); waited > 7*time.Second {
		t.Errorf("a job was offered after %v", waited)
	}
	for end := time.Now().Add(25 * time.Second); !isThere(); time.Sleep(500 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the weights have not come back")
		}
	}
	if took := time.Since(began); took < 8*time.Second {
		t.Errorf("the weights came back within %v: the way was not slow", took)
	}
}

// TestOfferedTwice: a withdrawal reaches who took a job first, also after the job was offered and taken once more.
func TestOfferedTwice(t *testing.T) {
	b := listen(t, t.TempDir())
	l := join(t, b, "w")
	j := jobsOf(1)[0]
	var stop <-chan struct{}
	for range 2 {
		if err := b.Hub.Offer(t.Context(), j.Name(), j, false); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if stop == nil {
			stop = l.Withdrawn(j.Name())
		}
	}
	if err := b.Hub.Withdraw(t.Context(), j.Name()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-stop:
	case <-time.After(10 * time.Second):
		t.Error("a job that is withdrawn goes on")
	}
}
