package peer

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// through is the address of a relay between a client and a store, which passes most bytes of the store's on, some at
// a time with a pause before each, and then none.
func through(t *testing.T, to Place, most int, pause time.Duration) Place {
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
			out, err := net.Dial("tcp", to.At)
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(out, in) }()
			go func() {
				buffer := make([]byte, 1<<15)
				for sum := 0; sum < most; {
					time.Sleep(pause)
					n, err := out.Read(buffer)
					if _, bad := in.Write(buffer[:n]); err != nil || bad != nil {
						return
					}
					sum += n
				}
			}()
		}
	}()
	return Place{At: at.Addr().String(), Print: to.Print}
}

// TestStalled: a peer that stops in the midst of a blob is given up, whether it fetches, serves or brings, and a slow
// one is not.
func TestStalled(t *testing.T) {
	const stall = 250 * time.Millisecond
	s, err := open("127.0.0.1", 0, 0, stall)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<15)
	name, err := s.Put(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	slow := through(t, s.Place, 1<<30, 40*time.Millisecond)
	began := time.Now()
	if got, err := fetch(t.Context(), client(slow, stall), slow, name, name.Limit()); err != nil || !bytes.Equal(got, data) || time.Since(began) < stall {
		t.Errorf("of a slow one: %d bytes after %v, %v", len(got), time.Since(began), err)
	}
	began = time.Now()
	if _, err := fetch(t.Context(), client(slow, stall), slow, name, stall); err == nil || time.Since(began) > 10*stall {
		t.Errorf("who is slower than the blob's limit is waited for: %v after %v", err, time.Since(began))
	}
	for _, size := range []int64{name.Size - 1, name.Size + 1, 8 << 30} { // as the job says
		if _, err := Fetch(t.Context(), s.Place, fleet.Blob{Hash: name.Hash, Size: size}); err == nil || !strings.Contains(err.Error(), "were asked for") {
			t.Errorf("a holder of %d bytes, where %d were asked for: %v", name.Size, size, err)
		}
	}
	stuck := through(t, s.Place, len(data)/8, 0) // of each connection
	gaveUp := make(chan error, 1)
	go func() {
		_, err := fetch(t.Context(), client(stuck, stall), stuck, name, name.Limit())
		gaveUp <- err
	}()
	select {
	case err := <-gaveUp:
		if err == nil {
			t.Error("a part of a blob was taken for it")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("who stopped is waited for")
	}
	if err := s.Expect(fleet.Hash{7}, 1000); err != nil {
		t.Fatal(err)
	}
	c, err := tls.Dial("tcp", s.Place.At, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // a test's
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "PUT /%s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf", fleet.Hash{7})
	if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(c); err != nil {
		t.Errorf("who brings and stops is waited for: %v", err)
	}
}
