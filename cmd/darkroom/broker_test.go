//go:build !nobroker

package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

func init() { programs["broker"] = broker }

// broker is a server of somebody else's: it listens at an address, and has a folder.
func broker() {
	host, text, err := net.SplitHostPort(os.Args[1])
	if err != nil {
		fail(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		fail(err)
	}
	s, err := server.NewServer(&server.Options{Host: host, Port: port, JetStream: true, StoreDir: os.Args[2], NoLog: true})
	if err != nil {
		fail(err)
	}
	s.Start()
	s.WaitForShutdown()
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// TestBrokerKilled is TestGradientsKilled with a server that is a process of its own, and is killed, too. It begins
// anew with its folder, or with an empty one.
func TestBrokerKilled(t *testing.T) {
	if *kills == 0 && !*long {
		t.Skip("kills processes for many seconds: -long, .ci/run slow")
	}
	c := computes(parted["pictures"])
	c.broker = func(at, dir string) *exec.Cmd {
		if rand.IntN(2) == 0 {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command(os.Args[0])
		cmd.Args = []string{"broker", at, dir} // by this name the test binary is the server
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for range 200 {
			if c, err := net.Dial("tcp", at); err == nil {
				_ = c.Close()
				return cmd
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Fatal("the server does not come up")
		return nil
	}
	c.often(t)
}
