package natsio

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

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

// introduction is what the join key signs of a worker.
func introduction(name, public string) []byte {
	return []byte("darkroom worker 1\n" + name + "\n" + public)
}

// trainerName is what the trainer's own connection is called.
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
