package natsio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// blobs reads one store of the server and writes another, or goes past it: by a folder that all share, or by peers.
type blobs struct {
	space
	js   jetstream.JetStream
	from string
	to   string
	past fleet.Blobs // the server; nil: it has them
}

// Put is fleet.Blobs'.
func (b blobs) Put(ctx context.Context, data []byte) (fleet.Blob, error) {
	if b.past != nil {
		return b.past.Put(ctx, data)
	}
	name := fleet.BlobOf(data)
	s, err := b.js.ObjectStore(ctx, b.of(b.to))
	if err != nil {
		return name, fmt.Errorf("storing %d bytes: %w", len(data), err)
	}
	if info, err := s.GetInfo(ctx, name.Hash.String()); err == nil && info.Size == uint64(len(data)) {
		return name, nil
	}
	ctx, cancel := context.WithTimeout(ctx, name.Limit())
	defer cancel()
	if _, err := s.PutBytes(ctx, name.Hash.String(), data); err != nil {
		return name, fmt.Errorf("storing %d bytes: %w", len(data), err)
	}
	return name, nil
}

// Get is fleet.Blobs'.
func (b blobs) Get(ctx context.Context, name fleet.Blob) ([]byte, error) {
	if b.past != nil {
		return b.past.Get(ctx, name)
	}
	ctx, cancel := context.WithTimeout(ctx, name.Limit()) // the client gives up after 5 s by itself
	defer cancel()
	s, err := b.js.ObjectStore(ctx, b.of(b.from))
	if err != nil {
		return nil, fmt.Errorf("fetching %s: %w", name.Hash.Short(), errors.Join(fleet.ErrNoBlob, err))
	}
	data, err := readFrom(ctx, s, name)
	if err != nil {
		return nil, fmt.Errorf("fetching %s: %w", name.Hash.Short(), errors.Join(fleet.ErrNoBlob, err))
	}
	return data, name.Holds(data)
}

// readFrom reads a blob, and no more than its size.
func readFrom(ctx context.Context, s jetstream.ObjectStore, name fleet.Blob) ([]byte, error) {
	r, err := s.Get(ctx, name.Hash.String())
	if err != nil {
		return nil, err
	}
	var data bytes.Buffer
	_, err = io.Copy(&data, io.LimitReader(r, name.Size+1))
	return data.Bytes(), errors.Join(err, r.Close())
}

// drop lets go of a blob of a store.
func (b blobs) drop(ctx context.Context, bucket string, name fleet.Hash) error {
	if b.past != nil {
		return b.past.Drop(ctx, name)
	}
	s, err := b.js.ObjectStore(ctx, b.of(bucket))
	if err == nil {
		err = s.Delete(ctx, name.String())
	}
	if errors.Is(err, jetstream.ErrObjectNotFound) || errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	return err
}

// Drop is fleet.Blobs': of what was put here.
func (b blobs) Drop(ctx context.Context, name fleet.Hash) error { return b.drop(ctx, b.to, name) }
