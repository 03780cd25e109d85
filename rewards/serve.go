package rewards

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Card: a reward as a server (darkroom score --serve), which is the reference for servers of others, too. It is a
// program on someone's desk, so a request from anyone must not cost more than the limits below. A web page that the
// desk's owner visits can send requests to this machine as well; it cannot set their content type without asking
// first, names itself as their origin, and after DNS was rebound names its own host. So requests with an origin, of
// another content type, or for a host that is not this machine while it alone is served, are refused.
//
// A request takes a turn when its body is there, so that one that does not come holds nobody up: bodies share AtOnce
// times Bytes, and a body beyond that is refused.
//
// Invariant (tests): memory is bounded by AtOnce requests of Bytes and Pixels; no request of a page passes.

// A Server answers the protocol for a judge. A zero limit means its default.
type Server struct {
	Judge    Judge
	Bytes    int64         // of a request: 256 MiB
	Pixels   int64         // of all pictures of a request: 2^27, about 500 frames of 512 x 512
	AtOnce   int           // requests that are decoded and judged beside each other: 4; others wait
	Patience time.Duration // with a body that arrives slowly, and a reply that is taken slowly: 60 s
}

// Handler is the server, ready to be used.
func (s Server) Handler() http.Handler {
	s.Bytes, s.Pixels = cmp.Or(s.Bytes, 256<<20), cmp.Or(s.Pixels, 1<<27)
	s.AtOnce, s.Patience = cmp.Or(s.AtOnce, 4), cmp.Or(s.Patience, time.Minute)
	service := &service{Server: s, turn: make(chan struct{}, s.AtOnce)}
	service.room.Store(int64(s.AtOnce) * s.Bytes)
	return service
}

// A service is a server at work.
type service struct {
	Server
	turn chan struct{} // room for those that are answered
	room atomic.Int64  // bytes of further bodies
}

// ServeHTTP answers a request.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	reply, status, err := s.answer(w, r)
	if err != nil {
		reply, _ = json.Marshal(map[string]string{"error": err.Error()}) // a text can be written
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.Patience)) // without one it waits longer
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(reply) // who asked may be gone
}

func (s *service) answer(w http.ResponseWriter, r *http.Request) (reply []byte, status int, err error) {
	if status, err := admitted(r); err != nil {
		return nil, status, err
	}
	arriving := &arriving{room: &s.room}
	defer arriving.leave()
	body, status, err := s.body(w, r, arriving)
	if err != nil {
		return nil, status, err
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-r.Context().Done():
		return nil, http.StatusServiceUnavailable, r.Context().Err()
	}
	items, err := decodeItems(r.Context(), body, s.Pixels)
	if err != nil {
		return nil, http.StatusBadRequest, err
	}
	results := s.Judge.Judge(r.Context(), items)
	if len(results) != len(items) {
		return nil, http.StatusInternalServerError, fmt.Errorf("the judge gave %d scores for %d items", len(results), len(items))
	}
	if reply, err = encodeResults(results); err != nil {
		return nil, http.StatusInternalServerError, err
	}
	return reply, http.StatusOK, nil
}

// body reads a request's body. Its time limit ends with it: judging may take longer.
func (s *service) body(w http.ResponseWriter, r *http.Request, c *arriving) (body []byte, status int, err error) {
	limits := http.NewResponseController(w)
	_ = limits.SetReadDeadline(time.Now().Add(s.Patience)) // without one it waits longer
	c.from = http.MaxBytesReader(w, r.Body, s.Bytes)
	body, err = io.ReadAll(c)
	if err == nil {
		_ = limits.SetReadDeadline(time.Time{}) // else the server would wait for the rest before it replies
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("a request of more than %d bytes: send the items in several", s.Bytes)
	case errors.Is(err, errCrowded):
		return nil, http.StatusServiceUnavailable, err
	case err != nil:
		return nil, http.StatusBadRequest, fmt.Errorf("reading the request: %w", err)
	}
	return body, http.StatusOK, nil
}

// arriving is a body whose bytes take of the room that all bodies share, until it leaves.
type arriving struct {
	from io.Reader
	room *atomic.Int64
	n    int64
}

var errCrowded = errors.New("too many bytes of requests arrive at once: send them again later, or fewer at once")

func (c *arriving) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n += int64(n)
	if c.room.Add(-int64(n)) < 0 {
		return 0, errCrowded
	}
	return n, err
}

func (c *arriving) leave() { c.room.Add(c.n) }

// admitted reports why a request is not answered, by its head alone.
func admitted(r *http.Request) (status int, err error) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")) // one that cannot be read is another one
	switch {
	case !ownHost(r):
		return http.StatusForbidden, fmt.Errorf("the host %q is not this machine, which alone is served here: ask for localhost", r.Host)
	case r.Header.Get("Origin") != "":
		return http.StatusForbidden, errors.New("requests of web pages are not answered")
	case r.Method != http.MethodPost:
		return http.StatusMethodNotAllowed, errors.New("items are sent by POST")
	case kind != "application/json":
		return http.StatusUnsupportedMediaType, errors.New("items are sent as Content-Type: application/json")
	}
	return 0, nil
}

// ownHost reports whether a request that came over the loopback names this machine.
func ownHost(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok || !local.IP.IsLoopback() {
		return true
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil
}

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
			end() // stops the judge
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

// limited is a listener with a limit of connections.
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
