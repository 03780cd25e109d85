//go:build !nobroker

package natsio

import (
	"encoding/base64"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
)

// Card: every worker has a key of its own, made when it starts and never written down. The join file's key signs the
// worker's name and public key, once; the server takes the worker's key for that name alone, and gives it the subjects
// of that name alone. So nobody speaks for another worker.
//
//	worker → server    NAME, its public key, its signature of the server's nonce, the join key's signature of both
//
// Who is dismissed is cut off, and its key is refused for good. It had the join file, too: so the join key is replaced,
// and the file written anew. Workers keep their keys, which are written down when they come: also when the trainer is
// resumed, and a worker is dismissed before the others are back. A worker of two roles has a connection and a name a
// role, and one key.
//
// Invariants (tests): a key that is revoked, or signed by a join key that was replaced, opens nothing, whatever name it
// gives; one of a worker that was there is taken as before.

// A guard says who may connect to the trainer's server, and what for.
type guard struct {
	dir    string
	say    func(format string, args ...any)
	ticket Ticket // what newcomers need
	server *server.Server
	mu     sync.Mutex
	id     identity
	there  map[string]present // by name
	gone   map[string]bool    // workers that were dismissed, by name
}

// present is a worker's connection.
type present struct {
	public string
	conn   uint64
}

// Check is the server's question.
func (g *guard) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	if !signed(o.Nkey, c.GetNonce(), o.Sig) {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if trainer, err := publicOf(g.id.Trainer); err == nil && o.Nkey == trainer {
		c.RegisterUser(&server.User{Username: trainerName})
		return true
	}
	if !g.knows(o.Name, o.Nkey, o.Token) || g.taken(o.Name, o.Nkey) {
		return false
	}
	g.there[o.Name] = present{o.Nkey, c.GetID()}
	g.remember(o.Name, o.Nkey)
	publish, subscribe := workerMay(o.Name)
	c.RegisterUser(&server.User{Username: o.Name, Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{Allow: publish}, Subscribe: &server.SubjectPermission{Allow: subscribe}}})
	return true
}

// knows reports whether a key is a worker's: signed by the join key, or there before that was replaced.
func (g *guard) knows(name, public, token string) bool {
	if !nameable(name) || slices.Contains(g.id.Revoked, public) {
		return false
	}
	if g.id.Known[name] == public {
		return true
	}
	join, err := publicOf(g.id.Worker)
	return err == nil && signed(join, introduction(name, public), token)
}

// mostKnown bounds the workers that are written down.
const mostKnown = 4096

// remember writes down who has come, so that a trainer that is resumed knows it before it is back. Where too many are,
// one that is not there is forgotten: after a dismissal it needs the new join file.
func (g *guard) remember(name, public string) {
	delete(g.gone, name)
	if g.id.Known[name] == public {
		return
	}
	id := g.id
	id.Known = maps.Clone(id.Known)
	if id.Known == nil {
		id.Known = map[string]string{}
	}
	id.Known[name] = public
	for other := range g.id.Known {
		if len(id.Known) <= mostKnown {
			break
		}
		if other != name && !g.connected(other) {
			delete(id.Known, other)
		}
	}
	g.id = id
	if err := writeSecret(filepath.Join(g.dir, identityFile), id); err != nil && g.say != nil {
		g.say("warning: fleet: worker %s is not written down, and needs the join file again if the trainer is resumed: %v", name, err)
	}
}

// taken reports whether another key's connection has the name.
func (g *guard) taken(name, public string) bool {
	p, known := g.there[name]
	return known && p.public != public && g.connected(name)
}

// connected reports whether a worker is there now.
func (g *guard) connected(name string) bool {
	p, known := g.there[name]
	if !known {
		return false
	}
	z, err := g.server.Connz(&server.ConnzOptions{CID: p.conn})
	return err == nil && z.NumConns > 0
}

// revoke takes a worker's key back, replaces the join key, and names what else the worker is called. A worker that is
// not written down has a key that the old join key vouched for, which opens nothing any more.
func (g *guard) revoke(name string) (others []string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gone[name] { // with another name of its
		return nil, nil
	}
	seed, err := newSeed()
	if err != nil {
		return nil, err
	}
	public := g.id.Known[name]
	id := g.id
	id.Worker, id.Known = seed, maps.Clone(id.Known)
	if public != "" {
		id.Revoked = append(slices.Clone(id.Revoked), public)
		maps.DeleteFunc(id.Known, func(_, key string) bool { return key == public })
	}
	if err := writeSecret(filepath.Join(g.dir, identityFile), id); err != nil {
		return nil, fmt.Errorf("taking back the key of worker %s: %w", name, err)
	}
	for other, key := range g.id.Known {
		if key == public && other != name {
			others = append(others, other)
		}
	}
	slices.Sort(others)
	for _, gone := range append([]string{name}, others...) {
		g.gone[gone] = true
	}
	g.id, g.ticket.Seed = id, seed
	for other, p := range g.there {
		if p.public == public || other == name {
			delete(g.there, other)
			time.AfterFunc(farewell, func() { _ = g.server.DisconnectClientByID(p.conn) }) // it may have left by itself
		}
	}
	if err := writeSecret(filepath.Join(g.dir, JoinFile), g.ticket); err != nil {
		return nil, fmt.Errorf("taking back the key of worker %s: %w", name, err)
	}
	if g.say != nil {
		g.say("fleet: the key of worker %s is taken back, and %s written anew: workers that come from now on need the new one", name, filepath.Join(g.dir, JoinFile))
	}
	return others, nil
}

// farewell is how long a dismissed worker has to hear of it.
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
