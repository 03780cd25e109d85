package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A wire that delays, loses and breaks, and one that is cut.

// wire is a network between two ends: data comes later, sometimes much later, as where packets are lost and sent
// again, and now and then a connection breaks.
type wire struct {
	net.Listener
	to     string
	delay  time.Duration
	chunks atomic.Int64
	lost   atomic.Int64
	broken atomic.Int64
}

func (w *wire) serve() {
	for {
		in, err := w.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", w.to)
		if err != nil {
			in.Close()
			continue
		}
		go w.pass(in, out)
		go w.pass(out, in)
	}
}

// pass passes chunks on, in their order, a delay after they came.
func (w *wire) pass(from, to net.Conn) {
	type chunk struct {
		data []byte
		due  time.Time
	}
	way := make(chan chunk, 1<<10)
	go func() {
		defer from.Close()
		defer to.Close()
		for c := range way {
			time.Sleep(time.Until(c.due))
			if _, err := to.Write(c.data); err != nil {
				return
			}
		}
	}()
	defer close(way)
	buffer := make([]byte, 1460)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		due := time.Now().Add(w.delay)
		w.chunks.Add(1)
		switch r := rand.Float64(); {
		case r < 0.0002:
			w.broken.Add(1)
			return
		case r < 0.01:
			w.lost.Add(1)
			due = due.Add(200 * time.Millisecond) // until it is sent again
		}
		way <- chunk{bytes.Clone(buffer[:n]), due}
	}
}

// TestFleetSlowWire: workers behind a network with a delay of 50 ms each way, which loses a packet of a hundred and
// breaks connections.
func TestFleetSlowWire(t *testing.T) {
	networks(t)
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{Listener: at, to: port.Addr().String(), delay: 50 * time.Millisecond}
	if err := port.Close(); err != nil {
		t.Fatal(err)
	}
	go w.serve()
	a := away(t, 30, "--listen", w.to, "--advertise", at.Addr().String())
	for n := range 2 {
		cmd, _ := started(t, a.dir, "worker", "--join", a.join(), "--name", fmt.Sprint("w", n))
		a.workers = append(a.workers, cmd)
	}
	a.ends()
	t.Logf("%d packets, %d lost, %d connections broken", w.chunks.Load(), w.lost.Load(), w.broken.Load())
	if w.lost.Load() == 0 || a.jobs()["w0"]+a.jobs()["w1"] == 0 {
		t.Error("nothing was lost, or workers did nothing")
	}
}

// TestFleetPartition: a worker in a network namespace of its own is cut off for 20 s, twice. It needs root, and ip.
func TestFleetPartition(t *testing.T) {
	networks(t)
	space := fmt.Sprint("dr", os.Getpid())
	ip := func(args ...string) error {
		out, err := exec.Command("ip", args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
		}
		return nil
	}
	if err := ip("netns", "add", space); err != nil {
		t.Skipf("no network namespace can be made: %v", err)
	}
	defer func() { _ = ip("netns", "del", space) }() // its end of the pair goes with it
	near, far := space+"a", space+"b"
	for _, args := range [][]string{
		{"link", "add", near, "type", "veth", "peer", "name", far, "netns", space},
		{"addr", "add", "10.213.77.1/30", "dev", near}, {"link", "set", near, "up"},
		{"-n", space, "addr", "add", "10.213.77.2/30", "dev", far}, {"-n", space, "link", "set", far, "up"}, {"-n", space, "link", "set", "lo", "up"},
	} {
		if err := ip(args...); err != nil {
			t.Fatal(err)
		}
	}
	a := away(t, 200, "--listen", "10.213.77.1:0", "--blobs", "peer")
	cmd := exec.Command("ip", "netns", "exec", space, "bash", "-c", `exec -a darkroom "$@"`, "-", os.Args[0], "worker", "--join", a.join(), "--name", "far")
	cmd.Dir = a.dir
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	a.workers = append(a.workers, cmd)
	until := func(n int) {
		for end := time.Now().Add(3 * time.Minute); a.jobs()["far"] < n; {
			if time.Now().After(end) {
				t.Fatalf("the worker did %v\n%s\n%s", a.jobs(), a.log, &said)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	for range 2 {
		until(a.jobs()["far"] + 5)
		if err := ip("link", "set", near, "down"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		before := a.jobs()["far"]
		if err := ip("link", "set", near, "up"); err != nil {
			t.Fatal(err)
		}
		until(before + 5)
	}
	a.ends()
	if !strings.Contains(said.String(), "out of reach") {
		t.Logf("the worker did not notice:\n%s", &said)
	}
}
