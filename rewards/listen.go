package rewards

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// mostConnections that are open at once; others wait to be accepted.
const mostConnections = 64

// Run answers at a listener until ctx ends. Then no request is taken any more, and those that are being
// answered have the time late to end.
func (s Server) Run(ctx context.Context, l net.Listener, late time.Duration) error {
	working, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	server := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return working },
	}
	drained := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		limited, done := context.WithTimeout(working, late)
		defer done()
		err := server.Shutdown(limited)
		if err != nil {
			end() // what judges stops
			err = errors.Join(fmt.Errorf("some requests were not answered within %v: %w", late, err), server.Close())
		}
		drained <- err
	})
	defer stop()
	room := &limited{Listener: l, free: make(chan struct{}, mostConnections), closed: make(chan struct{})}
	if err := server.Serve(room); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-drained
}

// limited is a listener with so many connections at once.
type limited struct {
	net.Listener
	free   chan struct{}
	closed chan struct{}
	once   sync.Once
}

// Accept waits for a connection to end where there are too many.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.free <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.free
		return nil, err
	}
	return &counted{Conn: c, done: sync.OnceFunc(func() { <-l.free })}, nil
}

// Close lets nobody in any more.
func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// counted is a connection that makes room for another when it is closed.
type counted struct {
	net.Conn
	done func()
}

// Close makes the room.
func (c *counted) Close() error {
	defer c.done()
	return c.Conn.Close()
}
