package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// client talks to a place, and to nobody who cannot prove that it is the one.
// It gives a connection up that stands still.
func client(at Place, stall time.Duration) *http.Client {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &steady{Conn: c, stall: stall}, nil
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true, DisableCompression: true, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 30 * time.Second,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, VerifyConnection: func(c tls.ConnectionState) error { //nolint:gosec // the certificate is known by its sum
			if len(c.PeerCertificates) == 0 || fleet.HashOf(c.PeerCertificates[0].Raw) != at.Print {
				return errors.New("it has another certificate")
			}
			return nil
		}}}}
}

// pieces is how often a transfer that breaks off is gone on with.
const pieces = 3

// Fetch fetches a blob from a place. A transfer that breaks off goes on where it stopped.
func Fetch(ctx context.Context, from Place, b fleet.Blob) ([]byte, error) {
	return fetch(ctx, client(from, stalls), from, b, b.Limit())
}

func fetch(ctx context.Context, c *http.Client, from Place, b fleet.Blob, limit time.Duration) (data []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit) // a slower holder counts as lost
	defer cancel()
	for range pieces {
		var done bool
		if data, done, err = more(ctx, c, from, b, data); done || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("fetching %s from %s: %w", b.Hash.Short(), from.At, err)
	}
	if err := b.Holds(data); err != nil {
		return nil, fmt.Errorf("from %s: %w", from.At, err)
	}
	return data, nil
}

// more fetches the rest of a blob; done: there is no more, or no sense in asking.
func more(ctx context.Context, c *http.Client, from Place, b fleet.Blob, has []byte) (data []byte, done bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+from.At+"/"+b.Hash.String(), nil)
	if err != nil {
		return has, true, err
	}
	want := http.StatusOK
	if len(has) > 0 {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", len(has)))
		want = http.StatusPartialContent
	}
	reply, err := c.Do(r)
	if err != nil {
		return has, true, err
	}
	defer reply.Body.Close()
	switch {
	case reply.StatusCode == http.StatusNotFound:
		return nil, true, fleet.ErrNoBlob
	case reply.StatusCode != want:
		return nil, true, fmt.Errorf("it answers %s", reply.Status)
	case reply.ContentLength != b.Size-int64(len(has)):
		return nil, true, fmt.Errorf("it has %d bytes, and %d were asked for", reply.ContentLength, b.Size-int64(len(has)))
	}
	if has == nil {
		has = make([]byte, 0, min(reply.ContentLength, atFirst))
	}
	got := bytes.NewBuffer(has)
	_, err = io.Copy(got, io.LimitReader(reply.Body, reply.ContentLength))
	return got.Bytes(), err == nil, err
}

// Bring brings a blob to a place that expects it.
func Bring(ctx context.Context, to Place, data []byte) error {
	name := fleet.HashOf(data)
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, "https://"+to.At+"/"+name.String(), bytes.NewReader(data))
	if err != nil {
		return err
	}
	reply, err := client(to, stalls).Do(r)
	if err != nil {
		return fmt.Errorf("bringing %d bytes to %s: %w", len(data), to.At, err)
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusNoContent {
		return fmt.Errorf("bringing %d bytes to %s: it answers %s", len(data), to.At, reply.Status)
	}
	return nil
}
