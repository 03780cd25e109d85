//go:build !nobroker

package natsio

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// authority is a certificate for this machine's loopback, and the file that says to trust it.
func authority(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, path
}

// aCluster is n servers of somebody else's, which speak TLS alone.
func aCluster(t *testing.T, n int) (all []*server.Server, urls, ca string) {
	t.Helper()
	pair, ca := authority(t)
	all, urls = clustered(t, n, func(i int, at string, routes []string) (*server.Options, error) {
		host, port, err := (Address{Listen: at}).split()
		o := &server.Options{ServerName: fmt.Sprint("s", i), Host: host, Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(),
			TLSConfig: &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}}, TLSTimeout: 5,
			Cluster: server.ClusterOpts{Name: "c", Host: host, Port: port}}
		for _, route := range routes {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: route})
		}
		return o, err
	})
	return all, urls, ca
}

// clustered starts n servers by their options, which has for each where it listens for the others, and all of these.
func clustered(t *testing.T, n int, options func(i int, at string, routes []string) (*server.Options, error)) (all []*server.Server, urls string) {
	t.Helper()
	var routes []string
	for range n {
		routes = append(routes, freeAddress(t))
	}
	var hosts []string
	for i, at := range routes {
		o, err := options(i, at, routes)
		if err != nil {
			t.Fatal(err)
		}
		o.NoSigs, o.NoLog = true, true
		s, err := server.NewServer(o)
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
		all = append(all, s)
	}
	for _, s := range all {
		if !s.ReadyForConnections(20 * time.Second) {
			t.Fatal("a server does not come up")
		}
		hosts = append(hosts, s.Addr().String())
	}
	for range 600 {
		for _, s := range all {
			if s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == n {
				return all, "nats+tls://" + strings.Join(hosts, ",")
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("the cluster has no leader")
	return nil, ""
}

// TestCluster: a cluster of three with TLS of an authority of its own carries a run, also when one of the three ends.
// It needs -long (make fleet).
func TestCluster(t *testing.T) {
	if !*long {
		t.Skip("takes seconds; left out without -long (make fleet)")
	}
	servers, at, ca := aCluster(t, 3)
	dir := t.TempDir()
	if _, err := Attach(Remote{URLs: at, Dir: dir, Run: "r"}); err == nil {
		t.Error("servers of an unknown authority were believed")
	}
	b, err := Attach(Remote{URLs: at, Authority: ca, Dir: dir, Run: "r"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		toil(t, join(t, b, fmt.Sprint("w", i)), 20*time.Millisecond)
	}
	if n := do(t, b, 12, false).Counts(); n.Done != 12 {
		t.Errorf("%+v", n)
	}
	for _, s := range servers {
		if s.JetStreamIsStreamLeader("$G", b.Hub.of(work)) {
			t.Logf("%s ends, which leads the stream of jobs", s.Name())
			s.Shutdown()
			break
		}
	}
	if n := do(t, b, 24, false).Counts(); n.Done != 24 {
		t.Errorf("%+v", n)
	}
	if err := b.Hub.Over(); err != nil {
		t.Error(err)
	}
	for name := range b.Hub.js.StreamNames(t.Context()).Name() {
		t.Errorf("stream %s is left", name)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
