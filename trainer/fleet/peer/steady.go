package peer

import (
	"net"
	"sync"
	"time"
)

// Card: a transfer may take as long as its bytes take, and no longer: where no byte moves for a while, either way, the
// connection ends. Deadlines that its user sets hold as well.
//
// Invariant (test): a peer that stops in the midst of a blob is given up, and one that is slow is not.

// stalls is how long a connection may stand still.
const stalls = 30 * time.Second

// steady is a connection that ends where it stands still.
type steady struct {
	net.Conn
	stall time.Duration
	mu    sync.Mutex
	read  time.Time // its user's own deadlines; zero: none
	write time.Time
}

// moves is called when bytes may move.
func (c *steady) moves() {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := time.Now().Add(c.stall)
	_ = c.Conn.SetReadDeadline(sooner(c.read, at)) // a read or a write reports the error
	_ = c.Conn.SetWriteDeadline(sooner(c.write, at))
}

// sooner is the first of a deadline, where there is one, and at.
func sooner(own, at time.Time) time.Time {
	if !own.IsZero() && own.Before(at) {
		return own
	}
	return at
}

func (c *steady) Read(p []byte) (int, error) {
	c.moves()
	return c.Conn.Read(p)
}

func (c *steady) Write(p []byte) (int, error) {
	c.moves()
	return c.Conn.Write(p)
}

func (c *steady) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = t
	return c.Conn.SetReadDeadline(t)
}

func (c *steady) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.write = t
	return c.Conn.SetWriteDeadline(t)
}

func (c *steady) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// steadily is a listener of such connections.
type steadily struct {
	net.Listener
	stall time.Duration
}

func (l steadily) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &steady{Conn: c, stall: l.stall}, nil
}
