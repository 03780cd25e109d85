//go:build !nobroker

package natsio

import (
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
)

// Card: the trainer's own server gives each worker's connection an account of its own. It has no streams; of the
// trainer's account it imports what workers need (names.go), and the server's answers stay in it: NATS holds what a
// client asks to its permissions, and not the subject to which the server answers. So a worker may let itself be
// answered under any name, and nobody else hears it.
//
// Invariants (TestForged): of whatever a worker may ask, with whatever subject for the answer, nothing comes to the
// trainer's account or to another worker.

// A guard says who may connect to the trainer's server, and what for.
type guard struct {
	*roster
	server *server.Server
}

// newGuard lets in whom a roster knows.
func newGuard(r *roster) *guard {
	g := &guard{roster: r}
	r.connected = func(p present) bool {
		z, err := g.server.Connz(&server.ConnzOptions{CID: p.conn})
		return err == nil && z.NumConns > 0
	}
	r.cut = func(p present) { _ = g.server.DisconnectClientByID(p.conn) } // it may have left by itself
	return g
}

// export lets workers' accounts have what they need of the trainer's.
func (g *guard) export() error {
	all := g.server.GlobalAccount()
	for _, s := range workerAsks("*") {
		kind := server.Singleton
		if s.many {
			kind = server.Streamed
		}
		if err := all.AddServiceExportWithResponse(s.subject, kind, nil); err != nil {
			return fmt.Errorf("opening %s to workers: %w", s.subject, err)
		}
	}
	for _, subject := range workerHears("*") {
		if err := all.AddStreamExport(subject, nil); err != nil {
			return fmt.Errorf("opening %s to workers: %w", subject, err)
		}
	}
	return nil
}

// account is the one of a worker's name.
func (g *guard) account(name string) (*server.Account, error) {
	own, isNew := g.server.LookupOrRegisterAccount("worker." + name)
	if !isNew {
		return own, nil
	}
	all := g.server.GlobalAccount()
	for _, s := range workerAsks(name) {
		if err := own.AddServiceImport(all, s.subject, s.subject); err != nil {
			return nil, err
		}
	}
	for _, subject := range workerHears(name) {
		if err := own.AddStreamImport(all, subject, ""); err != nil {
			return nil, err
		}
	}
	return own, nil
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
	own, err := g.account(o.Name)
	if err != nil {
		return false
	}
	g.there[o.Name] = present{public: o.Nkey, conn: c.GetID()}
	g.remember(o.Name, o.Nkey)
	may := &server.Permissions{Publish: &server.SubjectPermission{}, Subscribe: &server.SubjectPermission{Allow: append(workerHears(o.Name), inboxOf(o.Name)+".>")}}
	for _, s := range workerAsks(o.Name) {
		may.Publish.Allow = append(may.Publish.Allow, s.subject)
	}
	c.RegisterUser(&server.User{Username: o.Name, Account: own, Permissions: may})
	return true
}
