package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// A Hash is the SHA-256 of some content, by which it is named.
type Hash [sha256.Size]byte

// HashOf is that of data.
func HashOf(data []byte) Hash { return sha256.Sum256(data) }

// String is the whole hash in hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Short is enough of it for people.
func (h Hash) Short() string { return hex.EncodeToString(h[:4]) }

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
