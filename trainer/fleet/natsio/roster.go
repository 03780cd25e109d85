package natsio

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nkeys"
)

// Card: every worker has a key of its own, made when it starts and never written down. The join file's key signs the
// worker's name and public key, once; the key is then taken for that name alone. So nobody speaks for another worker.
//
//	worker → trainer    NAME, its public key, the join key's signature of both
//
// Who is dismissed or revoked is cut off, and its key is refused for good. It had the join file, too: so the join key
// is replaced, and the file written anew. Workers keep their keys, which are written down when they come: also when
// the trainer is resumed, and a worker is dismissed before the others are back. A worker of two roles has a connection
// and a name a role, and one key. A join file may have a last day: who comes after it needs another one.
//
// Invariants (tests): a key that is revoked, or signed by a join key that was replaced, opens nothing, whatever name it
// gives; one of a worker that was there is taken as before.

// A roster says whose key goes with which name.
type roster struct {
	dir    string
	say    func(format string, args ...any)
	ticket Ticket // data for newcomers
	now    func() time.Time
	// connected says whether a worker is there now, and cut ends its connection, where the server is the trainer's own.
	connected func(p present) bool
	cut       func(p present)

	mu    sync.Mutex
	id    identity
	there map[string]present // by name
	gone  map[string]bool    // workers that were dismissed, by name
}

// present is a worker that is there.
type present struct {
	public string
	conn   uint64    // of its connection to the trainer's own server
	heard  time.Time // on a server of somebody else's
	number uint64    // of its last message
}

// silent is the time after which a silent key loses its name on a foreign server.
const silent = time.Minute

// newRoster reads who was there.
func newRoster(dir string, id identity, say func(format string, args ...any)) *roster {
	r := &roster{dir: dir, say: say, id: id, now: time.Now, there: map[string]present{}, gone: map[string]bool{}, cut: func(present) {}}
	r.connected = func(p present) bool { return r.now().Sub(p.heard) < silent }
	return r
}

// knows reports whether a key is a worker's: signed by the join key, or there before that was replaced.
func (r *roster) knows(name, public, token string) bool {
	if !nameable(name) || slices.Contains(r.id.Revoked, public) {
		return false
	}
	if r.id.Known[name] == public {
		return true
	}
	join, err := publicOf(r.id.Worker)
	return err == nil && !r.id.ended(r.now()) && signed(join, introduction(name, public), token)
}

// mostKnown bounds the workers that are written down.
const mostKnown = 4096

// remember writes down who has come, so that a trainer that is resumed knows it before it is back. Where too many are,
// one that is not there is forgotten: after a dismissal it needs the new join file.
func (r *roster) remember(name, public string) {
	delete(r.gone, name)
	if r.id.Known[name] == public {
		return
	}
	id := r.id
	id.Known = maps.Clone(id.Known)
	if id.Known == nil {
		id.Known = map[string]string{}
	}
	id.Known[name] = public
	for other := range r.id.Known {
		if len(id.Known) <= mostKnown {
			break
		}
		if other != name && !r.isThere(other) {
			delete(id.Known, other)
		}
	}
	r.id = id
	if err := writeSecret(filepath.Join(r.dir, identityFile), id); err != nil && r.say != nil {
		r.say("warning: fleet: worker %s is not written down, and needs the join file again if the trainer is resumed: %v", name, err)
	}
}

// taken reports whether another key has the name.
func (r *roster) taken(name, public string) bool {
	return r.there[name].public != public && r.isThere(name)
}

func (r *roster) isThere(name string) bool {
	p, known := r.there[name]
	return known && r.connected(p)
}

// A word of a worker, on a server of somebody else's, is its public key (32), the join key's signature of the worker's
// introduction (64), and its own seal.
const wordHead = ed25519.PublicKeySize + ed25519.SignatureSize

// heard reads a worker's message in a name: the text of a seal of its key, of a kind. A passing message is of the
// trainer's session, and newer than the one before; a result stays one.
func (r *roster) heard(name, kind string, data []byte, in session) (text []byte, ok bool) {
	if len(data) < wordHead {
		return nil, false
	}
	raw := data[:ed25519.PublicKeySize]
	s, err := unseal(raw, kind, data[wordHead:])
	if err != nil {
		return nil, false
	}
	public, err := nkeys.Encode(nkeys.PrefixByteUser, raw)
	if err != nil {
		return nil, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	token := base64.RawURLEncoding.EncodeToString(data[ed25519.PublicKeySize:wordHead])
	if !r.knows(name, string(public), token) || r.taken(name, string(public)) {
		return nil, false
	}
	if kind == ofResult {
		return s.text, true
	}
	if p := r.there[name]; s.session != in || p.public == string(public) && s.number <= p.number {
		return nil, false // it was said before
	}
	r.there[name] = present{public: string(public), heard: r.now(), number: s.number}
	r.remember(name, string(public))
	return s.text, true
}

// left frees the name of a worker on a server of somebody else's.
func (r *roster) left(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p, known := r.there[name]; known {
		p.heard = time.Time{}
		r.there[name] = p
	}
}

// keyOf is the key that a name goes with; "": none.
func (r *roster) keyOf(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.id.Known[name]
}

// revoke takes a worker's key back, replaces the join key, and returns the worker's other names. A worker that is not
// written down has a key that the old join key vouched for, which opens nothing any more.
func (r *roster) revoke(name string) (others []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone[name] { // with another name of its
		return nil, nil
	}
	id, others, err := r.id.without(name)
	if err != nil {
		return nil, err
	}
	if err := writeSecret(filepath.Join(r.dir, identityFile), id); err != nil {
		return nil, fmt.Errorf("taking back the key of worker %s: %w", name, err)
	}
	public := r.id.Known[name]
	for _, gone := range append([]string{name}, others...) {
		r.gone[gone] = true
	}
	r.id, r.ticket.Seed = id, id.Worker
	for other, p := range r.there {
		if p.public == public || other == name {
			delete(r.there, other)
			time.AfterFunc(farewell, func() { r.cut(p) })
		}
	}
	if err := writeSecret(filepath.Join(r.dir, JoinFile), r.ticket); err != nil {
		return nil, fmt.Errorf("taking back the key of worker %s: %w", name, err)
	}
	if r.say != nil {
		r.say("fleet: the key of worker %s is taken back, and %s written anew: workers that come from now on need the new one", name, filepath.Join(r.dir, JoinFile))
	}
	return others, nil
}

// without is the identity without a worker: its key is revoked, and the join key another one. Names of the same key are
// returned.
func (id identity) without(name string) (_ identity, others []string, err error) {
	public := id.Known[name]
	known := id.Known
	if id.Worker, err = newSeed(); err != nil {
		return id, nil, err
	}
	id.Known = maps.Clone(known)
	if public != "" {
		id.Revoked = append(slices.Clone(id.Revoked), public)
		maps.DeleteFunc(id.Known, func(_, key string) bool { return key == public })
	}
	for other, key := range known {
		if key == public && other != name {
			others = append(others, other)
		}
	}
	slices.Sort(others)
	return id, others, nil
}

// farewell is the time in which a dismissed worker gets the message.
const farewell = 200 * time.Millisecond

// signed reports whether a text was signed by a public key.
func signed(public string, text []byte, signature string) bool {
	key, err := nkeys.FromPublicKey(public)
	if err != nil {
		return false
	}
	raw, err := base64.RawURLEncoding.DecodeString(signature)
	return err == nil && len(text) > 0 && key.Verify(text, raw) == nil
}
