package natsio

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/nats-io/nkeys"
)

// Card: workers obey messages signed by the trainer's key, and nothing else: jobs, and so the setups, weights and
// items whose hashes they name; the end of the run, dismissals, withdrawals, and places of blobs. The join file has
// the public half of the key, which is a run's own. A trainer draws a session when it begins, and numbers its signed
// messages.
//
//	seal    signature (64), session (16), number (8), text
//	signed  "darkroom fleet 1", the kind of the seal, session, number, text
//
// A worker asks for the session with a number that it draws itself, so that an old answer does not count. A seal of
// another session is not obeyed, nor one of another kind or run; a job is not withdrawn by a word that is older than
// its offer, and a dismissal names a key, which no later worker of that name has.
//
// On a server of somebody else's, where any client may say anything under any subject, workers sign in the same way by
// keys of their own: their names follow from the keys (roster.go).
//
// Invariants (TestForged): whatever the server sends in any name, and whatever earlier message is repeated, no worker
// obeys, and the trainer takes no name but the sender's.

// session is one of a trainer's times at work.
type session [16]byte

// A sealer signs.
type sealer struct {
	key     ed25519.PrivateKey
	session session
	number  atomic.Uint64
}

// sealerOf signs by the key of a seed, in a session of its own.
func sealerOf(seed string) (*sealer, error) {
	_, raw, err := nkeys.DecodeSeed([]byte(seed))
	if err != nil {
		return nil, err
	}
	s := &sealer{key: ed25519.NewKeyFromSeed(raw)}
	_, err = rand.Read(s.session[:])
	return s, err
}

// public is the key by which others verify.
func (s *sealer) public() ed25519.PublicKey {
	return ed25519.PublicKey(s.key[ed25519.SeedSize:])
}

// sealHead is the length before the text.
const sealHead = ed25519.SignatureSize + len(session{}) + 8

// toSign is the signed bytes of a kind, with room for the text.
func toSign(kind string, rest []byte) []byte {
	return append([]byte("darkroom fleet 1\n"+kind+"\n"), rest...)
}

// seal signs a text of a kind, and numbers it.
func (s *sealer) seal(kind string, text []byte) []byte {
	return s.sealIn(s.session, kind, text)
}

func (s *sealer) sealIn(in session, kind string, text []byte) []byte {
	all := make([]byte, ed25519.SignatureSize, sealHead+len(text))
	all = append(all, in[:]...)
	all = binary.BigEndian.AppendUint64(all, s.number.Add(1))
	all = append(all, text...)
	copy(all, ed25519.Sign(s.key, toSign(kind, all[ed25519.SignatureSize:])))
	return all
}

// A sealed text is one whose signature holds.
type sealed struct {
	session session
	number  uint64
	text    []byte
}

// errSeal says that a text is not from whom it says.
var errSeal = errors.New("the signature is not the trainer's")

// unseal reads a message of a kind signed by a key.
func unseal(by ed25519.PublicKey, kind string, data []byte) (s sealed, err error) {
	if len(data) < sealHead || len(by) != ed25519.PublicKeySize || !ed25519.Verify(by, toSign(kind, data[ed25519.SignatureSize:]), data[:ed25519.SignatureSize]) {
		return s, errSeal
	}
	rest := data[ed25519.SignatureSize:]
	rest = rest[copy(s.session[:], rest):]
	s.number, s.text = binary.BigEndian.Uint64(rest), rest[8:]
	return s, nil
}

// verifierOf is a public key as the join file has it.
func verifierOf(public string) (ed25519.PublicKey, error) {
	raw, err := nkeys.Decode(nkeys.PrefixByteUser, []byte(public))
	if err != nil {
		return nil, fmt.Errorf("the trainer's public key: %w", err)
	}
	return raw, nil
}

// once is a number that was never drawn before.
func once() []byte {
	n := make([]byte, 16)
	_, _ = rand.Read(n) // it does not fail (crypto/rand)
	return n
}

// Kinds of seals.
const (
	ofJob      = "job"
	ofHail     = "hail"
	ofBegin    = "begin"
	ofWithdraw = "withdraw"
	ofDismiss  = "dismiss"
	ofOver     = "over"
	ofPlace    = "place"
	ofRevoke   = "revoke"
	ofWord     = "word"   // a worker's
	ofResult   = "result" // a worker's
)
