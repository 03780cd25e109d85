package natsio

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/darkroom-rl/darkroom/outside/regular"
	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// A Ticket is a join file: where a run's trainer listens, how it is recognised, and the key that vouches for workers.
type Ticket struct {
	Run         string   `json:"run"`
	Addresses   []string `json:"addresses"`             // host:port, of which one suffices
	Certificate string   `json:"certificate,omitempty"` // the only one that is trusted
	Seed        string   `json:"seed"`                  // of the nkey that vouches for workers
	Trainer     string   `json:"trainer"`               // the public key of the trainer's seals
	Blobs       string   `json:"blobs,omitempty"`       // a folder that all machines share, or peer
	// Space is the run's on a server of somebody else's, which has its own certificate and credentials; "": the server is
	// the trainer's.
	Space       space     `json:"space,omitempty"`
	Credentials string    `json:"-"`              // a file of such a server; the worker's own
	Until       time.Time `json:"until,omitzero"` // after which it lets no newcomer in
	own         string    // the seed of the worker's key; "": each link makes one
	silence     *notice   // of a trainer that gives no answer, once for all links; nil: each link has its own
}

// mostTicket bounds a join file, in bytes.
const mostTicket = 1 << 16

// ReadTicket reads a join file.
func ReadTicket(path string) (t Ticket, err error) {
	text, err := regular.Read(path, mostTicket)
	if errors.Is(err, fs.ErrNotExist) {
		return t, fmt.Errorf("%s: no such file\nhint: 'darkroom train --listen' writes it into the run's folder, as join; copy it from there", path)
	}
	if err != nil {
		return t, err
	}
	t.silence = &notice{}
	if err := json.Unmarshal(text, &t); err != nil {
		return t, fmt.Errorf("%s: it is no join file: %w", path, err)
	}
	if len(t.Addresses) == 0 || t.Seed == "" || t.Trainer == "" || t.Space == "" && t.Certificate == "" {
		return t, fmt.Errorf("%s: it is no join file: addresses, certificate, seed or the trainer's key are missing\nhint: copy it again from the run's folder, and run the same version of the program here", path)
	}
	return t, nil
}

// Open reports whether others than its owner may read a join file.
func Open(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&0o077 != 0
}

// OpenFiles are those of a run's folder with keys that others than their owner may read.
func OpenFiles(dir string) (all []string) {
	for _, name := range []string{JoinFile, identityFile} {
		if path := filepath.Join(dir, name); Open(path) {
			all = append(all, path)
		}
	}
	return all
}

// connect connects a worker.
func (t Ticket) connect(worker string, more ...nats.Option) (*nats.Conn, error) {
	if t.Space != "" {
		return t.attach(worker, more...)
	}
	config, err := trusts(t.Certificate)
	if err != nil {
		return nil, fmt.Errorf("the join file's certificate: %w", err)
	}
	return introduced(t.urls(), t.Seed, t.own, worker, config, more...)
}

// lastDay says when the file ends.
func (t Ticket) lastDay() string {
	if t.Until.IsZero() {
		return ""
	}
	return ", or is it over: it lets nobody new in after " + t.Until.Format(time.RFC3339)
}

// WithKey is the ticket with a key, which all links that it opens have in common: a worker dismissed in one role is
// dismissed in all.
func (t Ticket) WithKey() (_ Ticket, err error) {
	t.own, err = newSeed()
	return t, err
}

// Further is the ticket for a further link of one process: a port for peers is the first link's.
func (t Ticket) Further() Ticket {
	if ByPeers(t.Blobs) {
		t.Blobs = byPeers
	}
	return t
}

// urls are the addresses for the client.
func (t Ticket) urls() string {
	all := make([]string, len(t.Addresses))
	for i, a := range t.Addresses {
		all[i] = "tls://" + a
	}
	return strings.Join(all, ",")
}

// connect opens a connection that comes back for as long as it takes, by the key of a seed.
func connect(urls, seed, name string, tlsConfig *tls.Config, more ...nats.Option) (*nats.Conn, error) {
	pair, err := nkeys.FromSeed([]byte(seed))
	if err != nil {
		return nil, fmt.Errorf("invalid key: %w", err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		return nil, err
	}
	options := append([]nats.Option{
		nats.Name(name), nats.Nkey(public, pair.Sign), nats.CustomInboxPrefix(inboxOf(name)),
	}, append(patient(), more...)...)
	if tlsConfig != nil {
		options = append(options, nats.Secure(tlsConfig))
	}
	return nats.Connect(urls, options...)
}

// introduced connects a worker by the seed of its own key, which the join file's key vouches for.
func introduced(urls, join, seed, name string, tlsConfig *tls.Config, more ...nats.Option) (*nats.Conn, error) {
	public, err := publicOf(seed)
	if err != nil {
		return nil, err
	}
	signature, err := vouch(join, name, public)
	if err != nil {
		return nil, err
	}
	more = append([]nats.Option{nats.Token(base64.RawURLEncoding.EncodeToString(signature))}, more...)
	return connect(urls, seed, name, tlsConfig, more...)
}

// vouch is the join key's signature of a worker.
func vouch(join, name, public string) ([]byte, error) {
	by, err := nkeys.FromSeed([]byte(join))
	if err != nil {
		return nil, fmt.Errorf("invalid key: %w", err)
	}
	return by.Sign(introduction(name, public))
}

// introduction is the text about a worker that the join key signs.
func introduction(name, public string) []byte {
	return []byte("darkroom worker 1\n" + name + "\n" + public)
}

// trainerName is the name of the trainer's own connection.
const trainerName = "trainer"

// nameable reports whether a worker can be called so: its name is part of subjects, and the trainer has names of its
// own, by which it is answered and whose results are not compared.
func nameable(name string) bool {
	return name != "" && len(name) <= 128 && name != trainerName && name != fleet.Here && !strings.ContainsAny(name, ".*> \t\r\n")
}

// patient are options of a connection that comes back for as long as it takes.
func patient() []nats.Option {
	return []nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(time.Second), nats.ReconnectJitter(500*time.Millisecond, time.Second), nats.Timeout(5 * time.Second)}
}
