package natsio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// Card: a blob is the messages of its pieces, numbered from 0, under a subject that ends in its hash. Its size says how
// many there are, so nothing else describes it. Who reads it asks the stream itself for a page of messages after
// another (direct get), without a consumer.
//
// Invariants (tests): no more is read than the size, and the content has the hash.

// pieceBytes is how much of a blob a message has: below the least that servers take, 1 MiB.
const pieceBytes = 256 << 10

// pageBytes is how much is asked for at once.
const pageBytes = 8 << 20

// underWay is how many pieces are sent before the first is acknowledged.
const underWay = 32

// piecesOf is how many pieces a blob has.
func piecesOf(b fleet.Blob) int { return max(1, int((b.Size+pieceBytes-1)/pieceBytes)) }

// blobs reads and writes blobs of the server's streams, or goes past it: by a folder that all share, or by peers.
type blobs struct {
	space
	nc   *nats.Conn
	js   jetstream.JetStream
	past fleet.Blobs // nil: the server has them
}

// send writes a blob's pieces under a subject.
func (b blobs) send(ctx context.Context, subject string, data []byte) error {
	of := fleet.Blob{Size: int64(len(data))}
	ctx, cancel := context.WithTimeout(ctx, of.Limit())
	defer cancel()
	var sent []jetstream.PubAckFuture
	settle := func(most int) error {
		for len(sent) > most {
			select {
			case <-sent[0].Ok():
			case err := <-sent[0].Err():
				return err
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			sent = sent[1:]
		}
		return nil
	}
	for i := range piecesOf(of) {
		f, err := b.js.PublishAsync(subject+"."+strconv.Itoa(i), data[i*pieceBytes:min((i+1)*pieceBytes, len(data))])
		if err == nil {
			sent = append(sent, f)
			err = settle(underWay)
		}
		if err != nil {
			return fmt.Errorf("storing %d bytes: %w", len(data), err)
		}
	}
	if err := settle(0); err != nil {
		return fmt.Errorf("storing %d bytes: %w", len(data), err)
	}
	return nil
}

// page is a question for messages of a stream.
type page struct {
	First uint64 `json:"seq"`
	Most  int    `json:"batch"`
	Bytes int    `json:"max_bytes"`
	Under string `json:"next_by_subj"`
}

// fetch reads a blob's pieces of a stream, under a subject.
func (b blobs) fetch(ctx context.Context, stream, subject string, of fleet.Blob) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, of.Limit())
	defer cancel()
	data, err := b.pages(ctx, stream, subject, of)
	if err != nil {
		return nil, fmt.Errorf("fetching %s: %w", of.Hash.Short(), errors.Join(fleet.ErrNoBlob, err))
	}
	return data, of.Holds(data)
}

// silence is how long an answer may take, of which a piece is a part.
const silence = 5 * time.Second

// lags is the number of further requests for a page without a piece on a foreign server, of which a member that lacks
// the newest messages may answer, or none while they elect a leader.
const lags = 20

func (b blobs) pages(ctx context.Context, stream, subject string, of fleet.Blob) (data []byte, err error) {
	answers, err := b.nc.SubscribeSync(b.nc.NewInbox())
	if err != nil {
		return nil, err
	}
	defer func() { _ = answers.Unsubscribe() }() // a connection that is gone has none
	all, empty := piecesOf(of), 0
	for next, seq := 0, uint64(1); next < all; {
		text, err := json.Marshal(page{seq, all, pageBytes, subject + ".>"})
		if err == nil {
			err = b.nc.PublishRequest(b.directSubject(stream), answers.Subject, text)
		}
		if err != nil {
			return nil, err
		}
		before := next
		for {
			m, err := answers.NextMsg(silence)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrNoResponders) {
				break // who was asked has gone
			}
			if err != nil {
				return nil, err
			}
			status := m.Header.Get("Status")
			if status == "204" || status == "404" {
				break
			}
			if status != "" {
				return nil, fmt.Errorf("piece %d of %d: %s %s", next+1, all, status, m.Header.Get("Description"))
			}
			if seq, err = strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64); err != nil {
				return nil, err
			}
			seq++
			at, ok := strings.CutPrefix(m.Header.Get("Nats-Subject"), subject+".")
			if !ok || at != strconv.Itoa(next) || next == all || int64(len(data)+len(m.Data)) > of.Size {
				continue // it was published again meanwhile
			}
			data, next = append(data, m.Data...), next+1
		}
		if next > before {
			continue
		}
		if empty++; b.space == "" && empty > tries || empty > lags {
			return nil, fmt.Errorf("piece %d of %d is not there", next+1, all)
		}
		select {
		case <-time.After(time.Duration(empty) * 50 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return data, nil
}

// complete reports whether all pieces of a blob are in a stream.
func (b blobs) complete(ctx context.Context, stream, subject string, of fleet.Blob) bool {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	s, err := b.js.Stream(ctx, b.of(stream))
	if err != nil {
		return false
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(subject+".>"))
	return err == nil && len(info.State.Subjects) == piecesOf(of)
}

// purge deletes a stream's messages under a subject.
func (b blobs) purge(ctx context.Context, stream, subject string) error {
	ctx, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	s, err := b.js.Stream(ctx, b.of(stream))
	if err == nil {
		err = s.Purge(ctx, jetstream.WithPurgeSubject(subject))
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	return err
}
