package peer

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// A Place is where somebody serves blobs, and the SHA-256 of the certificate by which it is known. Without a host it is
// the one by which the trainer's server is reached.
type Place struct {
	At    string     `json:"at,omitempty"` // host:port
	Print fleet.Hash `json:"print,omitzero"`
}

// Card: a store serves GET /HASH to any client with the hash, which 256 bits keep as a password would: it travels by
// TLS alone. PUT /HASH is taken where it was said beforehand that it comes, by somebody who may say so (Expect), and
// where its content has that hash.
//
// Invariant (tests): a request without a hash, and a blob brought unasked, larger than announced or with another
// content, are refused and not held.

// A Store holds blobs in memory, and serves them.
type Store struct {
	Place  Place
	most   int // how many blobs it holds; 0: all
	cert   tls.Certificate
	server *http.Server
	served chan struct{} // closed where nothing is served any more
	mu     sync.Mutex
	held   map[fleet.Hash][]byte
	order  []fleet.Hash
	expect map[fleet.Hash]int64 // bytes
}

// Open serves an empty store at host and port; 0: a free one. It holds the last most blobs; 0: all.
func Open(host string, port, most int) (*Store, error) { return open(host, port, most, stalls) }

func open(host string, port, most int, stall time.Duration) (*Store, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(5 * 365 * 24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	at, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("serving blobs to others: %w\nhint: is the port taken? 'peer' alone takes a free one", err)
	}
	s := &Store{most: most, cert: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, served: make(chan struct{}), held: map[fleet.Hash][]byte{}, expect: map[fleet.Hash]int64{}}
	s.Place = Place{At: at.Addr().String(), Print: fleet.HashOf(der)}
	s.server = &http.Server{Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 1 << 13}
	go func() {
		defer close(s.served)
		_ = s.server.Serve(tls.NewListener(steadily{at, stall}, &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{s.cert}})) // until it is closed
	}()
	return s, nil
}

// Port is where it serves.
func (s *Store) Port() string {
	_, port, _ := net.SplitHostPort(s.Place.At) // it is a listener's
	return port
}

// Close ends it. Its port is free afterwards, also where serving had not begun yet.
func (s *Store) Close() error {
	err := s.server.Close()
	<-s.served
	return err
}

// Put holds a blob.
func (s *Store) Put(_ context.Context, data []byte) (fleet.Blob, error) {
	name := fleet.BlobOf(data)
	s.hold(name.Hash, data)
	return name, nil
}

func (s *Store) hold(name fleet.Hash, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.held[name]; !known {
		s.order = append(s.order, name)
	}
	s.held[name] = data
	for s.most > 0 && len(s.order) > s.most {
		delete(s.held, s.order[0])
		s.order = s.order[1:]
	}
}

// Get returns a held blob.
func (s *Store) Get(_ context.Context, b fleet.Blob) ([]byte, error) {
	data, err := s.has(b.Hash)
	if err != nil {
		return nil, err
	}
	return data, b.Holds(data)
}

func (s *Store) has(name fleet.Hash) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if data, known := s.held[name]; known {
		return data, nil
	}
	return nil, fmt.Errorf("fetching %s: %w", name.Short(), fleet.ErrNoBlob)
}

// Drop lets go of a blob.
func (s *Store) Drop(_ context.Context, name fleet.Hash) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, name)
	s.order = slices.DeleteFunc(s.order, func(h fleet.Hash) bool { return h == name })
	return nil
}

// mostBytes bounds a blob that is brought.
const mostBytes = 8 << 30

// atFirst is how much memory a blob gets before its bytes are there.
const atFirst = 64 << 20

// Expect takes a blob that will be brought, of this size.
func (s *Store) Expect(name fleet.Hash, size int64) error {
	if size < 0 || size > mostBytes {
		return fmt.Errorf("a blob of %d bytes is not taken", size)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expect[name] = size
	return nil
}

func (s *Store) serve(w http.ResponseWriter, r *http.Request) {
	var name fleet.Hash
	if len(r.URL.Path) < 2 || name.UnmarshalText([]byte(r.URL.Path[1:])) != nil {
		http.NotFound(w, r)
		return
	}
	switch r.Method {
	case http.MethodGet:
		data, err := s.has(name)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	case http.MethodPut:
		s.take(w, r, name)
	default:
		http.Error(w, "GET and PUT are possible", http.StatusMethodNotAllowed)
	}
}

// take takes a blob that is brought.
func (s *Store) take(w http.ResponseWriter, r *http.Request, name fleet.Hash) {
	s.mu.Lock()
	size, known := s.expect[name]
	s.mu.Unlock()
	if !known || r.ContentLength != size {
		http.Error(w, "it is not waited for", http.StatusForbidden)
		return
	}
	got := bytes.NewBuffer(make([]byte, 0, min(size, atFirst)))
	_, err := io.CopyN(got, r.Body, size)
	data := got.Bytes()
	if err != nil || fleet.HashOf(data) != name {
		http.Error(w, "it has another content", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	delete(s.expect, name)
	s.mu.Unlock()
	s.hold(name, data)
	w.WriteHeader(http.StatusNoContent)
}
