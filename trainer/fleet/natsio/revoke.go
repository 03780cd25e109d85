package natsio

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
	"github.com/nats-io/nats.go"
)

// Revoke takes a worker's key back, for the owner of a run's folder: by its trainer, where that is at work, and in
// the folder itself otherwise. The credentials are a file of a server of somebody else's. asked: the trainer did it.
func Revoke(dir, worker, credentials string) (asked bool, err error) {
	path := filepath.Join(dir, identityFile)
	if _, err := os.Stat(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("%s is not there: no worker was ever let in to this run\nhint: 'darkroom train --listen' lets workers in", path)
		}
		return false, err
	}
	id, err := identityIn(dir)
	if err != nil {
		return false, err
	}
	t, err := ReadTicket(filepath.Join(dir, JoinFile))
	if err != nil {
		return false, err
	}
	if id.Known[worker] == "" {
		return false, fmt.Errorf("no worker called %s has come to this run\nhint: those that have: %s", worker, known(id))
	}
	t.Credentials = credentials
	nc, err := t.asTrainer(id)
	if err == nil {
		defer nc.Close()
		return true, t.revokes(nc, id, worker)
	}
	if t.Space != "" && !errors.Is(err, nats.ErrNoServers) {
		return false, fmt.Errorf("asking the trainer: %w\nhint: --creds names a file of credentials for the run's server", err)
	}
	if id, _, err = id.without(worker); err != nil {
		return false, err
	}
	t.Seed = id.Worker
	return false, errors.Join(writeSecret(path, id), writeSecret(filepath.Join(dir, JoinFile), t))
}

// mostNames is how many names a hint has.
const mostNames = 20

// known are names of workers that have come.
func known(id identity) string {
	var all []string
	for name := range id.Known {
		all = append(all, name)
	}
	slices.Sort(all)
	if len(all) > mostNames {
		all = append(all[:mostNames], "...")
	}
	if len(all) == 0 {
		return "none"
	}
	return fmt.Sprint(all)
}

// asTrainer is a second connection of the trainer's.
func (t Ticket) asTrainer(id identity) (*nats.Conn, error) {
	once := []nats.Option{nats.MaxReconnects(0), nats.Timeout(3 * time.Second)}
	if t.Space != "" {
		return t.attach(trainerName, once...)
	}
	config, err := trusts(t.Certificate)
	if err != nil {
		return nil, err
	}
	return connect(t.urls(), id.Trainer, trainerName, config, once...)
}

// revokes asks the trainer, in its session.
func (t Ticket) revokes(nc *nats.Conn, id identity, worker string) error {
	own, err := sealerOf(id.Trainer)
	if err != nil {
		return err
	}
	l := &Link{blobs: blobs{space: t.Space, nc: nc}, trainer: own.public()}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := l.hail(ctx); err != nil {
		return fmt.Errorf("asking the trainer: %w", err)
	}
	m, err := nc.RequestWithContext(ctx, t.Space.subject(revoke), own.sealIn(l.now(), ofRevoke, []byte(worker)))
	if err != nil {
		return fmt.Errorf("asking the trainer: %w", err)
	}
	s, err := unseal(own.public(), ofRevoke, m.Data)
	if err == nil && len(s.text) > 0 {
		err = errors.New(string(s.text))
	}
	return err
}

// Who is dismissed is dismissed in all of its roles, which have a name each and one key.

// Dismiss implements fleet.Hub.
func (h *Hub) Dismiss(_ context.Context, worker string) error {
	key := h.roster.keyOf(worker)
	others, err := h.roster.revoke(worker)
	if err != nil {
		return err
	}
	for _, name := range append([]string{worker}, others...) {
		if err := h.nc.Publish(h.subject(dismiss+name), h.seal(ofDismiss, []byte(key))); err != nil {
			return err
		}
		if name != worker {
			h.tells(name, "it is worker "+worker+" in another role")
		}
	}
	return nil
}

// tells lets the fleets of all roles know that a worker was dismissed.
func (h *Hub) tells(worker, why string) {
	for _, box := range h.boxes {
		box.Put(fleet.Event{Kind: fleet.Dismissed, Worker: worker, Why: why})
	}
}

// revoked takes back the key of a worker, for somebody who has the trainer's.
func (h *Hub) revoked(m *nats.Msg) {
	s, err := unseal(h.public(), ofRevoke, m.Data)
	if err != nil || s.session != h.session {
		return
	}
	name := string(s.text)
	text := "there is no worker of this name"
	if h.roster.keyOf(name) != "" {
		text = ""
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := h.Dismiss(ctx, name); err != nil {
			text = err.Error()
		} else {
			h.tells(name, "its key was revoked")
		}
	}
	_ = h.answer(m, h.seal(ofRevoke, []byte(text))) // who asked sees the join file
}
