package natsio

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// JoinFile is the name of the join file in a run's folder.
const JoinFile = "join"

// An Address is where a run listens for workers.
type Address struct {
	Listen string // host:port; a port of 0 is a free one
	Dir    string // the run's folder, which keeps the keys
	Run    string // its name
	// Advertised is where workers reach it, host:port, where that is another address than this machine's own.
	Advertised string
	Blobs      string                           // a folder that all machines share, for weights and results; peer: from process to process; "": they go through the server
	Until      time.Time                        // after which the join file lets no newcomer in; zero: as it was
	Logf       func(format string, args ...any) // a line for people; nil: nobody asks
}

// split is the host and the port: without a host, the loopback.
func (a Address) split() (host string, port int, err error) {
	host, text, err := net.SplitHostPort(a.Listen)
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil || port < 0 || port > 1<<16-1 {
		return "", 0, fmt.Errorf("--listen %s: host:port is needed, such as 127.0.0.1:4222, or 0.0.0.0:4222 for other machines", a.Listen)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return host, port, nil
}

// Check refuses an invalid address.
func (a Address) Check() error {
	if a.Advertised != "" {
		if _, port, err := net.SplitHostPort(a.Advertised); err != nil || port == "" {
			return fmt.Errorf("--advertise %s: host:port is needed, by which workers reach this machine", a.Advertised)
		}
	}
	if _, _, err := peerPort(a.Blobs); err != nil {
		return err
	}
	_, _, err := a.split()
	return err
}

// A Broker is a server in this process, with the trainer's connection to it.
type Broker struct {
	Hub     *Hub
	Ticket  Ticket
	Join    string // the join file
	port    string
	stop    func()
	scratch string
	peers   *origin // nil: blobs do not go by peers
}

// pastServer opens the transport of blobs in place of the server, and returns its name in a join file; nil: nothing.
// The host is the one that peers are served at. It ends with the broker.
func (b *Broker) pastServer(where, host string) (past fleet.Blobs, called string, err error) {
	if where == "" {
		return nil, "", nil
	}
	port, peers, err := peerPort(where)
	if err != nil {
		return nil, "", err
	}
	if peers {
		if b.peers, err = originAt(host, port); err != nil {
			return nil, "", err
		}
		return b.peers, byPeers, nil
	}
	s, err := fleet.OpenShelf(where)
	if err != nil {
		return nil, "", err
	}
	return s, s.Dir, nil
}

// Port is where it listens.
func (b *Broker) Port() string {
	return b.port
}

// Close ends the server. Its memory is gone.
func (b *Broker) Close() error {
	var errs []error
	if b.Hub != nil {
		errs = append(errs, b.Hub.Close())
	}
	if b.peers != nil {
		errs = append(errs, b.peers.Close())
	}
	if b.stop != nil {
		b.stop()
	}
	if b.scratch != "" {
		errs = append(errs, os.RemoveAll(b.scratch))
	}
	return errors.Join(errs...)
}
