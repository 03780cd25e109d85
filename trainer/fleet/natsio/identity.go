package natsio

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/darkroom-rl/darkroom/outside/regular"
)

// An identity has the keys by which a run's server proves itself, and lets others in. It is made when a run first
// listens, and kept in the run's folder, so that workers find a trainer that is resumed.
type identity struct {
	Certificate string `json:"certificate"` // the server's own, PEM
	Key         string `json:"key"`
	Trainer     string `json:"trainer"` // seeds of nkeys
	Worker      string `json:"worker"`  // the join file's
	// Known are workers that have come: public keys by name. Revoked are public keys of workers that were dismissed.
	Known   map[string]string `json:"known,omitempty"`
	Revoked []string          `json:"revoked,omitempty"`
	Until   time.Time         `json:"until,omitzero"` // after which the join file lets no newcomer in
}

// ended reports whether the join file's last day is over.
func (id identity) ended(now time.Time) bool { return !id.Until.IsZero() && now.After(id.Until) }

// identityFile is in the run's folder, for its owner alone.
const identityFile = "broker.json"

// mostIdentity bounds it, in bytes: some thousand workers are written down.
const mostIdentity = 4 << 20

// identityIn reads the folder's identity, or makes one.
func identityIn(dir string) (id identity, err error) {
	path := filepath.Join(dir, identityFile)
	text, err := regular.Read(path, mostIdentity)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if id, err = newIdentity(); err != nil {
			return id, fmt.Errorf("making the run's keys: %w", err)
		}
		return id, writeSecret(path, id)
	case err != nil:
		return id, err
	}
	err = json.Unmarshal(text, &id)
	if err == nil {
		err = id.whole()
	}
	if err != nil {
		return id, fmt.Errorf("%s: %w\nhint: delete it, and new keys are made; workers need the new join file then", path, err)
	}
	return id, nil
}

// whole refuses an identity of which something is missing or spoilt.
func (id identity) whole() error {
	if _, err := id.serves(); err != nil {
		return err
	}
	for what, seed := range map[string]string{"trainer": id.Trainer, "worker": id.Worker} {
		if _, err := publicOf(seed); err != nil {
			return fmt.Errorf("invalid key %q: %w", what, err)
		}
	}
	return nil
}

// identityUntil is the folder's identity, with another last day of its join file; zero: the one that it has.
func identityUntil(dir string, until time.Time) (identity, error) {
	id, err := identityIn(dir)
	if err != nil || until.IsZero() || id.Until.Equal(until) {
		return id, err
	}
	id.Until = until
	return id, writeSecret(filepath.Join(dir, identityFile), id)
}

// ticket is the join file, but for where the run is.
func (id identity) ticket(run string) (Ticket, error) {
	public, err := publicOf(id.Trainer)
	return Ticket{Run: run, Seed: id.Worker, Trainer: public, Until: id.Until}, err
}

// writeSecret writes a file that its owner alone may read, whole or not at all.
func writeSecret(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	aside := path + ".part"
	if err := os.Remove(aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(aside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(aside, path)
}

// serverName is the name in the certificate, whatever the machine's name.
const serverName = "darkroom-trainer"

// always is the last date that a certificate can say: it has no end (RFC 5280, 4.1.2.5).
var always = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

func newIdentity() (id identity, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return id, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return id, err
	}
	c := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: serverName}, DNSNames: []string{serverName},
		NotBefore: time.Unix(0, 0), NotAfter: always, // clocks of trainer and workers may be wrong, and this one certificate is trusted
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		return id, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return id, err
	}
	id.Certificate = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	id.Key = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	for _, seed := range []*string{&id.Trainer, &id.Worker} {
		if *seed, err = newSeed(); err != nil {
			return id, err
		}
	}
	return id, nil
}

// newSeed is that of a new key.
func newSeed() (string, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return "", err
	}
	seed, err := pair.Seed()
	return string(seed), err
}

// publicOf is the public key of a seed.
func publicOf(seed string) (string, error) {
	pair, err := nkeys.FromSeed([]byte(seed))
	if err != nil {
		return "", err
	}
	return pair.PublicKey()
}

// serves is the server's side of TLS 1.3.
func (id identity) serves() (*tls.Config, error) {
	pair, err := tls.X509KeyPair([]byte(id.Certificate), []byte(id.Key))
	if err != nil {
		return nil, fmt.Errorf("the run's certificate: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}}, nil
}

// trusts is the client's side: this one certificate, and no other authority.
func trusts(certificate string) (*tls.Config, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(certificate)) {
		return nil, errors.New("there is no certificate in it")
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, ServerName: serverName}, nil
}

// addresses are the names by which this machine may be reached from others; one that was asked for is the only one.
func addresses(host string) []string {
	if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) {
		return []string{host}
	}
	var all []string
	if name, err := os.Hostname(); err == nil {
		all = append(all, name)
	}
	found, err := net.InterfaceAddrs()
	if err != nil {
		return append(all, "127.0.0.1")
	}
	for _, a := range found {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() {
			all = append(all, n.IP.String())
		}
	}
	return all
}
