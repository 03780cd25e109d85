package natsio

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/darkroom-rl/darkroom/outside/regular"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// A server, or a cluster, of somebody else's (train --workers). It has certificates and credentials of its own,
// serves many runs, and outlives the trainer: the results for a trainer that was killed are there when it is resumed.
// The server decides permissions; a trainer makes and deletes the streams of its run.

// A Remote is such a server.
type Remote struct {
	URLs        string // nats+tls://HOST:PORT,HOST:PORT; nats:// on this machine alone
	Credentials string // a file of the server's; "": none
	Authority   string // a PEM file of certificates that the server's are held to; "": those that this machine trusts
	Dir         string // the run's folder
	Run         string // its name
	Blobs       string // Address.Blobs
	Until       time.Time
	Logf        func(format string, args ...any) // Address.Logf
}

// Check refuses invalid addresses, and those by which keys and pictures would go in the open.
func (r Remote) Check() error {
	if _, _, err := peerPort(r.Blobs); err != nil {
		return err
	}
	_, err := r.addresses()
	return err
}

// addresses are those for the client.
func (r Remote) addresses() (all []string, err error) {
	scheme, hosts, ok := strings.Cut(r.URLs, "://")
	if ok && scheme != "nats+tls" && scheme != "tls" && scheme != "nats" {
		ok = false
	}
	for _, host := range strings.Split(hosts, ",") {
		host = strings.TrimPrefix(host, scheme+"://")
		at, err := url.Parse("tls://" + host)
		if !ok || err != nil || at.Hostname() == "" || at.User != nil || at.Path != "" {
			return nil, fmt.Errorf("--workers %s: nats+tls://HOST:PORT is needed, of one server or several: nats+tls://a:4222,b:4222", r.URLs)
		}
		if scheme != "nats" {
			all = append(all, "tls://"+at.Host)
			continue
		}
		if ip := net.ParseIP(at.Hostname()); at.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return nil, fmt.Errorf("--workers %s: without TLS everybody on the way reads along\nhint: nats+tls://%s", r.URLs, at.Host)
		}
		all = append(all, "nats://"+at.Host)
	}
	return all, nil
}

// Attach connects to the server.
func Attach(r Remote) (_ *Broker, err error) {
	urls, err := r.addresses()
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(r.Dir)
	if err != nil {
		return nil, err
	}
	id, err := identityUntil(dir, r.Until)
	if err != nil {
		return nil, err
	}
	t, err := id.ticket(r.Run)
	if err != nil {
		return nil, err
	}
	t.Addresses, t.Space, t.Credentials = urls, spaceOf(r.Run, dir), r.Credentials
	if r.Authority != "" {
		text, err := regular.Read(r.Authority, mostTicket)
		if err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
		t.Certificate = string(text)
	}
	nc, err := t.attach(trainerName)
	if err != nil {
		return nil, fmt.Errorf("--workers %s: %w\nhint: is the server there, does --creds name a file of it, and --ca the authority of its certificate?", r.URLs, err)
	}
	b := &Broker{}
	defer func() {
		if err != nil {
			_ = b.Close()
			nc.Close()
		}
	}()
	host, _, err := net.SplitHostPort(nc.LocalAddr())
	if err != nil {
		return nil, err
	}
	past, called, err := b.pastServer(r.Blobs, host)
	if err != nil {
		return nil, err
	}
	t.Blobs = called
	who := newRoster(dir, id, r.Logf)
	who.ticket = t
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if b.Hub, err = newHub(ctx, nc, t.Space, past, who, 0); err != nil {
		return nil, fmt.Errorf("--workers %s: %w\nhint: the server needs JetStream, and the credentials the right to make streams", r.URLs, err)
	}
	b.Ticket, b.Join = t, filepath.Join(dir, JoinFile)
	return b, writeSecret(b.Join, b.Ticket)
}

// spaceOf names a run on a server of many: by its name, and by its folder, since two may be called alike.
func spaceOf(run, dir string) space {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, run)
	return space(clean[:min(len(clean), 40)] + "-" + fleet.HashOf([]byte(dir)).Short())
}

// attach connects to servers of somebody else's.
func (t Ticket) attach(name string, more ...nats.Option) (*nats.Conn, error) {
	urls := strings.Join(t.Addresses, ",")
	options := append([]nats.Option{nats.Name(name)}, append(patient(), more...)...)
	if strings.HasPrefix(urls, "tls://") {
		config := &tls.Config{MinVersion: tls.VersionTLS13}
		if t.Certificate != "" {
			config.RootCAs = x509.NewCertPool()
			if !config.RootCAs.AppendCertsFromPEM([]byte(t.Certificate)) {
				return nil, errors.New("there is no certificate in the authority's file")
			}
		}
		options = append(options, nats.Secure(config))
	}
	if t.Credentials != "" {
		by, err := credentials(t.Credentials)
		if err != nil {
			return nil, err
		}
		options = append(options, by)
	}
	return nats.Connect(urls, options...)
}

// credentials are those of a file: the seed of an nkey alone, or a user's JWT with one.
func credentials(path string) (nats.Option, error) {
	text, err := regular.Read(path, mostTicket)
	if err != nil {
		return nil, fmt.Errorf("--creds: %w", err)
	}
	if bytes.Contains(text, []byte("-----BEGIN NATS USER JWT-----")) {
		return nats.UserCredentials(path), nil
	}
	by, err := nats.NkeyOptionFromSeed(path)
	if err != nil {
		return nil, fmt.Errorf("--creds %s: neither a user's JWT nor the seed of a key (SU...): %w", path, err)
	}
	return by, nil
}
