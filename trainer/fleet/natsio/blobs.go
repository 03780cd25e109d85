package natsio

import (
	"context"
	"errors"
	"fmt"
	"time"

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
func (b blobs) Put(ctx context.Context, data []byte) (fleet.Hash, error) {
	if b.past != nil {
		return b.past.Put(ctx, data)
	}
	name := fleet.HashOf(data)
	s, err := b.js.ObjectStore(ctx, b.of(b.to))
	if err != nil {
		return name, fmt.Errorf("storing %d bytes: %w", len(data), err)
	}
	if info, err := s.GetInfo(ctx, name.String()); err == nil && info.Size == uint64(len(data)) {
		return name, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience(uint64(len(data))))
	defer cancel()
	if _, err := s.PutBytes(ctx, name.String(), data); err != nil {
		return name, fmt.Errorf("storing %d bytes: %w", len(data), err)
	}
	return name, nil
}

// Get is fleet.Blobs'.
func (b blobs) Get(ctx context.Context, name fleet.Hash) ([]byte, error) {
	if b.past != nil {
		return b.past.Get(ctx, name)
	}
	s, err := b.js.ObjectStore(ctx, b.of(b.from))
	if err != nil {
		return nil, fmt.Errorf("fetching %s: %w", name.Short(), errors.Join(fleet.ErrNoBlob, err))
	}
	info, err := s.GetInfo(ctx, name.String())
	var data []byte
	if err == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience(info.Size))
		defer cancel()
		data, err = s.GetBytes(ctx, name.String())
	}
	if err != nil {
		return nil, fmt.Errorf("fetching %s: %w", name.Short(), errors.Join(fleet.ErrNoBlob, err))
	}
	if fleet.HashOf(data) != name {
		return nil, fmt.Errorf("fetching %s: it has another content: %w", name.Short(), fleet.ErrNoBlob)
	}
	return data, nil
}

// patience is how long a blob may take, on a wire of a megabyte a second: the client gives up after 5 s by itself.
func patience(size uint64) time.Duration {
	return 30*time.Second + time.Duration(size>>20)*time.Second
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
