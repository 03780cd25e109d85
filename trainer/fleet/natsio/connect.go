package natsio

import (
	"crypto/tls"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// connect opens a connection that comes back for as long as it takes.
func connect(urls, seed, role, name string, tlsConfig *tls.Config, more ...nats.Option) (*nats.Conn, error) {
	pair, err := nkeys.FromSeed([]byte(seed))
	if err != nil {
		return nil, fmt.Errorf("the key is none: %w", err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		return nil, err
	}
	options := append([]nats.Option{
		nats.Name(name), nats.Nkey(public, pair.Sign), nats.CustomInboxPrefix(inboxOf(role)),
	}, append(patient(), more...)...)
	if tlsConfig != nil {
		options = append(options, nats.Secure(tlsConfig))
	}
	return nats.Connect(urls, options...)
}

// patient are options of a connection that comes back for as long as it takes.
func patient() []nats.Option {
	return []nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(time.Second), nats.ReconnectJitter(500*time.Millisecond, time.Second), nats.Timeout(5 * time.Second)}
}
