package natsio

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/darkroom-rl/darkroom/trainer/fleet/peer"
)

// Blobs from peer to peer (--blobs peer): the server carries questions of some hundred bytes, and answers as long
// (package peer). Workers may be where nobody reaches them: they serve nobody then.

// byPeers is the word of --blobs and of a join file in place of a folder.
const byPeers = "peer"

// peerPort is the port of "peer" or "peer:PORT"; ok: it is one of these.
func peerPort(blobs string) (port int, ok bool, err error) {
	if blobs == byPeers {
		return 0, true, nil
	}
	text, ok := strings.CutPrefix(blobs, byPeers+":")
	if !ok {
		return 0, false, nil
	}
	if port, err = strconv.Atoi(text); err != nil || port < 1 || port > 1<<16-1 {
		return 0, true, fmt.Errorf("--blobs %s: peer, or peer:PORT for a port of your own, is possible, or a folder", blobs)
	}
	return port, true, nil
}

// ByPeers reports whether blobs go so.
func ByPeers(blobs string) bool {
	_, ok, _ := peerPort(blobs)
	return ok
}

// most is how many others a process serves a blob at once.
const most = 8

// question is a worker's question about a blob.
type question struct {
	What string     `json:"what"` // where, got, failed or bring
	Name fleet.Hash `json:"name"`
	Who  peer.Place `json:"who"` // that asks
	From peer.Place `json:"from,omitzero"`
	Size int64      `json:"size,omitempty"` // of a blob that is brought
	Once []byte     `json:"once"`           // a number that the worker draws, which the answer has, too
}

// reply is the answer.
type reply struct {
	At   peer.Place `json:"at,omitzero"`
	Wait bool       `json:"wait,omitempty"` // all who have it are busy
	Why  string     `json:"why,omitempty"`  // there is nothing to be had
	Once []byte     `json:"once"`
}

// origin is the trainer's end.
type origin struct {
	*peer.Store
	tracker *peer.Tracker
}

// originAt serves blobs at a host.
func originAt(host string, port int) (*origin, error) {
	s, err := peer.Open(host, port, 0)
	if err != nil {
		return nil, err
	}
	return &origin{s, peer.NewTracker(most)}, nil
}

// Put is fleet.Blobs'.
func (o *origin) Put(ctx context.Context, data []byte) (fleet.Blob, error) {
	name, err := o.Store.Put(ctx, data)
	o.tracker.Holds(name.Hash, o.Place)
	return name, err
}

// Drop is fleet.Blobs'.
func (o *origin) Drop(ctx context.Context, name fleet.Hash) error {
	o.tracker.Drop(name)
	return o.Store.Drop(ctx, name)
}

// answer answers workers.
func (o *origin) answer(h *Hub) error {
	_, err := h.nc.Subscribe(h.subject(where), func(m *nats.Msg) {
		var q question
		if json.Unmarshal(m.Data, &q) != nil || len(q.Once) > mostHail {
			return
		}
		r := o.told(q)
		r.Once = q.Once
		if text, err := json.Marshal(r); err == nil {
			_ = h.answer(m, h.seal(ofPlace, text)) // who asked asks again
		}
	})
	return err
}

func (o *origin) told(q question) reply {
	switch q.What {
	case "where":
		at, known, free := o.tracker.Where(q.Name, q.Who)
		if !known {
			return reply{Why: "nobody has it"}
		}
		return reply{At: at, Wait: !free}
	case "got":
		o.tracker.Got(q.Name, q.Who, q.From)
	case "failed":
		o.tracker.Failed(q.Name, q.Who, q.From)
	case "bring":
		if err := o.Expect(q.Name, q.Size); err != nil {
			return reply{Why: err.Error()}
		}
		return reply{At: o.Place}
	}
	return reply{}
}

// branch is a worker's end.
type branch struct {
	*peer.Store
	nc      *nats.Conn
	subject string
	trainer ed25519.PublicKey
}

// branchOf serves a worker's blobs through the server's subject.
func branchOf(nc *nats.Conn, subject string, trainer ed25519.PublicKey, port int) (*branch, error) {
	host, _, err := net.SplitHostPort(nc.LocalAddr())
	if err != nil {
		return nil, fmt.Errorf("serving blobs to others: %w", err)
	}
	s, err := peer.Open(host, port, most)
	if err != nil {
		return nil, err
	}
	return &branch{s, nc, subject, trainer}, nil
}

// ask asks the trainer.
func (b *branch) ask(ctx context.Context, q question) (r reply, err error) {
	q.Who, q.Once = b.Place, once()
	text, err := json.Marshal(q)
	if err != nil {
		return r, err
	}
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	m, err := b.nc.RequestWithContext(limited, b.subject, text)
	var s sealed
	if err == nil {
		s, err = unseal(b.trainer, ofPlace, m.Data)
	}
	if err == nil {
		err = json.Unmarshal(s.text, &r)
	}
	if err == nil && !bytes.Equal(r.Once, q.Once) {
		err = errors.New("it answers another question")
	}
	if err != nil {
		return r, fmt.Errorf("asking the trainer for %s: %w", q.Name.Short(), err)
	}
	if r.Why != "" {
		return r, fmt.Errorf("asking the trainer for %s: %s: %w", q.Name.Short(), r.Why, fleet.ErrNoBlob)
	}
	return r, nil
}

// reached is a place with its host: the trainer's is the one that this worker is connected to.
func (b *branch) reached(at peer.Place) peer.Place {
	if host, port, err := net.SplitHostPort(at.At); err == nil && host == "" {
		if u, err := url.Parse(b.nc.ConnectedUrl()); err == nil {
			at.At = net.JoinHostPort(u.Hostname(), port)
		}
	}
	return at
}

// Get is fleet.Blobs'.
func (b *branch) Get(ctx context.Context, name fleet.Blob) ([]byte, error) {
	if data, err := b.Store.Get(ctx, name); err == nil {
		return data, nil
	}
	var failed error
	for n := 0; n < tries; {
		r, err := b.ask(ctx, question{What: "where", Name: name.Hash})
		if err != nil {
			return nil, errors.Join(err, failed)
		}
		if r.Wait {
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-time.After(20 * time.Millisecond):
			}
			continue
		}
		data, err := peer.Fetch(ctx, b.reached(r.At), name)
		if err != nil {
			n, failed = n+1, err
			_, _ = b.ask(ctx, question{What: "failed", Name: name.Hash, From: r.At}) // it counts for a minute then
			continue
		}
		_, _ = b.Store.Put(ctx, data)
		_, _ = b.ask(ctx, question{What: "got", Name: name.Hash, From: r.At})
		return data, nil
	}
	return nil, fmt.Errorf("%w: tried %d times; is the trainer's port of --blobs open to this machine?", failed, tries)
}

// Put is fleet.Blobs': results are brought to the trainer.
func (b *branch) Put(ctx context.Context, data []byte) (fleet.Blob, error) {
	name := fleet.BlobOf(data)
	r, err := b.ask(ctx, question{What: "bring", Name: name.Hash, Size: name.Size})
	if err != nil {
		return name, err
	}
	return name, peer.Bring(ctx, b.reached(r.At), data)
}
