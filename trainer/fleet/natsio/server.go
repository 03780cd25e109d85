//go:build !nobroker

package natsio

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats-server/v2/server/sysmem"
	"github.com/nats-io/nats.go"
)

// Listen starts the server in this process, and connects to it. Each client proves itself by a key and is identified
// by it, and the wire speaks TLS 1.3, on the loopback as anywhere.
func Listen(a Address) (_ *Broker, err error) {
	host, port, err := a.split()
	if err != nil {
		return nil, err
	}
	id, err := identityUntil(a.Dir, a.Until)
	if err != nil {
		return nil, err
	}
	b := &Broker{}
	defer func() {
		if err != nil {
			_ = b.Close()
		}
	}()
	past, called, err := b.pastServer(a.Blobs, host)
	if err != nil {
		return nil, err
	}
	if b.peers != nil {
		b.peers.Place.At = net.JoinHostPort("", b.peers.Port()) // workers reach it at the host by which they reach the server
	}
	if b.scratch, err = emptied(filepath.Join(a.Dir, scratchDir)); err != nil {
		return nil, err
	}
	if err := free(host, port); err != nil {
		return nil, fmt.Errorf("--listen %s: %w\nhint: is the port taken? :0 takes a free one", a.Listen, err)
	}
	o, err := options(id, host, port, b.scratch)
	if err != nil {
		return nil, err
	}
	g := newGuard(newRoster(a.Dir, id, a.Logf))
	o.CustomClientAuthentication = g
	s, err := server.NewServer(o)
	if err != nil {
		return nil, fmt.Errorf("starting the fleet's server: %w", err)
	}
	g.server = s
	if err := g.export(); err != nil {
		return nil, err
	}
	s.Start()
	b.stop = func() {
		s.Shutdown()
		s.WaitForShutdown()
	}
	if !s.ReadyForConnections(20 * time.Second) {
		return nil, fmt.Errorf("--listen %s: the server does not come up\nhint: is the port taken? :0 takes a free one", a.Listen)
	}
	nc, err := connect("", id.Trainer, trainerName, nil, nats.InProcessServer(s))
	if err != nil {
		return nil, fmt.Errorf("connecting to the fleet's own server: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if b.Hub, err = newHub(ctx, nc, "", past, g.roster, max(leastRoom, sysmem.Memory()/4)); err != nil {
		nc.Close()
		return nil, err
	}
	at, ok := s.Addr().(*net.TCPAddr)
	if !ok {
		return nil, errors.New("the fleet's server has no port")
	}
	t, err := id.ticket(a.Run)
	if err != nil {
		return nil, err
	}
	t.Certificate, t.Blobs = id.Certificate, called
	b.port = strconv.Itoa(at.Port)
	for _, name := range addresses(host) {
		t.Addresses = append(t.Addresses, net.JoinHostPort(name, b.port))
	}
	if a.Advertised != "" {
		t.Addresses = []string{a.Advertised}
	}
	b.Ticket, b.Join = t, filepath.Join(a.Dir, JoinFile)
	g.ticket = t
	return b, writeSecret(b.Join, t)
}

// leastRoom bounds results' blobs on the smallest machine; elsewhere it is a quarter of the memory.
const leastRoom = 256 << 20

// mostConnections leaves half of the descriptors that this process may have to the run: connections of strangers cost
// it nothing but these.
func mostConnections() int {
	const usual = 1 << 16
	if n := descriptors(); n > 0 {
		return int(min(max(n/2-8, 8), usual))
	}
	return usual
}

// scratchDir is in the run's folder while the server is there, which keeps next to nothing in it. It is not among the
// machine's temporary files: of a trainer that is killed it would stay there.
const scratchDir = "broker.tmp"

// emptied is a folder with nothing in it.
func emptied(dir string) (string, error) {
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.Mkdir(dir, 0o700)
}

// free says whether somebody else has a port: the server would try for many seconds.
func free(host string, port int) error {
	if port == 0 {
		return nil
	}
	at, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return at.Close()
}

// options are the server's.
func options(id identity, host string, port int, dir string) (*server.Options, error) {
	tlsConfig, err := id.serves()
	if err != nil {
		return nil, err
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	return &server.Options{ServerName: serverName, Host: host, Port: port, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true,
		MaxPayload: 1 << 20, MaxConn: mostConnections(), TLSConfig: tlsConfig, TLSTimeout: 5, AuthTimeout: 5, AlwaysEnableNonce: true,
		PingInterval: 10 * time.Second, MaxPingsOut: 2}, nil // so that the name of a worker whose machine died is free soon
}

// Card: the trainer's own server gives each worker's connection an account of its own. It has no streams; of the
// trainer's account it imports the subjects of workers (names.go), and the server's answers stay in it: NATS checks a
// client's requests against its permissions, but not the subject to which the server answers. So a worker may direct
// answers to any name, and nobody else gets them.
//
// Invariants (TestForged): of whatever a worker may ask, with whatever subject for the answer, nothing comes to the
// trainer's account or to another worker.

// A guard decides who may connect to the trainer's server, with which permissions.
type guard struct {
	*roster
	server *server.Server
}

// newGuard lets in whom a roster knows.
func newGuard(r *roster) *guard {
	g := &guard{roster: r}
	r.connected = func(p present) bool {
		z, err := g.server.Connz(&server.ConnzOptions{CID: p.conn})
		return err == nil && z.NumConns > 0
	}
	r.cut = func(p present) { _ = g.server.DisconnectClientByID(p.conn) } // it may have left by itself
	return g
}

// export gives workers' accounts their part of the trainer's.
func (g *guard) export() error {
	all := g.server.GlobalAccount()
	for _, s := range workerAsks("*") {
		kind := server.Singleton
		if s.many {
			kind = server.Streamed
		}
		if err := all.AddServiceExportWithResponse(s.subject, kind, nil); err != nil {
			return fmt.Errorf("opening %s to workers: %w", s.subject, err)
		}
	}
	for _, subject := range workerHears("*") {
		if err := all.AddStreamExport(subject, nil); err != nil {
			return fmt.Errorf("opening %s to workers: %w", subject, err)
		}
	}
	return nil
}

// account is the one of a worker's name.
func (g *guard) account(name string) (*server.Account, error) {
	own, isNew := g.server.LookupOrRegisterAccount("worker." + name)
	if !isNew {
		return own, nil
	}
	all := g.server.GlobalAccount()
	for _, s := range workerAsks(name) {
		if err := own.AddServiceImport(all, s.subject, s.subject); err != nil {
			return nil, err
		}
	}
	for _, subject := range workerHears(name) {
		if err := own.AddStreamImport(all, subject, ""); err != nil {
			return nil, err
		}
	}
	return own, nil
}

// Check is the server's question.
func (g *guard) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	if !signed(o.Nkey, c.GetNonce(), o.Sig) {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if trainer, err := publicOf(g.id.Trainer); err == nil && o.Nkey == trainer {
		c.RegisterUser(&server.User{Username: trainerName})
		return true
	}
	if !g.knows(o.Name, o.Nkey, o.Token) || g.taken(o.Name, o.Nkey) {
		return false
	}
	own, err := g.account(o.Name)
	if err != nil {
		return false
	}
	g.there[o.Name] = present{public: o.Nkey, conn: c.GetID()}
	g.remember(o.Name, o.Nkey)
	may := &server.Permissions{Publish: &server.SubjectPermission{}, Subscribe: &server.SubjectPermission{Allow: append(workerHears(o.Name), inboxOf(o.Name)+".>")}}
	for _, s := range workerAsks(o.Name) {
		may.Publish.Allow = append(may.Publish.Allow, s.subject)
	}
	c.RegisterUser(&server.User{Username: o.Name, Account: own, Permissions: may})
	return true
}
