package natsio

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// TestSlowWire: a blob that takes longer than the client's own patience of 5 s comes through.
func TestSlowWire(t *testing.T) {
	if !*long {
		t.Skip("waits for a slow wire: -long, .ci/run slow")
	}
	t.Parallel()
	b := listen(t, t.TempDir())
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	go func() { // passes 150 KB a second on to the worker
		for {
			in, err := at.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", b.Ticket.Addresses[0])
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(out, in) }() // until either side ends
			go func() {
				defer in.Close()
				for err == nil {
					_, err = io.CopyN(in, out, 15<<10)
					time.Sleep(100 * time.Millisecond)
				}
			}()
		}
	}()
	data := bytes.Repeat([]byte("weights "), 1<<17)
	name, err := b.Hub.Put(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	ticket := b.Ticket
	ticket.Addresses = []string{at.Addr().String()}
	l, err := Join(t.Context(), ticket, "slow", "", t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got, err := l.Get(t.Context(), name); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
