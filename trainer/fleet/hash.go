package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// A Hash is the SHA-256 of some content, by which it is named.
type Hash [sha256.Size]byte

// HashOf is that of data.
func HashOf(data []byte) Hash { return sha256.Sum256(data) }

// String is the whole hash in hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Short is enough of it for people.
func (h Hash) Short() string { return hex.EncodeToString(h[:4]) }

// A Blob is content by its hash, and its size: nobody who brings it moves or holds more than that.
type Blob struct {
	Hash Hash  `json:"hash"`
	Size int64 `json:"size"`
}

// BlobOf is that of data.
func BlobOf(data []byte) Blob { return Blob{HashOf(data), int64(len(data))} }

// Holds refuses data that are not the blob's.
func (b Blob) Holds(data []byte) error {
	if int64(len(data)) != b.Size || HashOf(data) != b.Hash {
		return fmt.Errorf("fetching %s: it has another content: %w", b.Hash.Short(), ErrNoBlob)
	}
	return nil
}

// slowest is the least speed of a wire, in bytes a second.
const slowest = 256 << 10

// Limit is how long the blob may take on its way, at the least speed of a wire.
func (b Blob) Limit() time.Duration {
	return 30*time.Second + time.Duration(max(b.Size, 0)/slowest)*time.Second
}

// MarshalText is for JSON.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText is MarshalText's way back.
func (h *Hash) UnmarshalText(text []byte) error {
	if len(text) != 2*len(h) {
		return fmt.Errorf("a hash has %d hexadecimal digits, and this has %d", 2*len(h), len(text))
	}
	_, err := hex.Decode(h[:], text)
	return err
}
