package peer

import (
	"slices"
	"sync"
	"time"

	"github.com/darkroom-rl/darkroom/trainer/fleet"
)

// Card: the trainer knows the holders of a blob. A client is sent to the holder that serves the fewest others at that
// moment, of whom each serves a bounded number at once, and becomes a holder when it has it. So the time until n
// workers have a version grows with log n, and the trainer sends it a few times, not n times. A holder that does not
// answer is one no more; the trainer always is. A client that does not report the outcome is counted for a minute.
// Who was not sent for a blob is neither believed to have it, nor that another has it not.
//
// Invariants (tests): nobody serves more than the bound at once; a client that asks long enough is sent to a holder.

// A Tracker knows the holders of blobs.
type Tracker struct {
	most  int
	now   func() time.Time
	mu    sync.Mutex
	blobs map[fleet.Hash][]*holder // the trainer first
}

// holder is who has a blob.
type holder struct {
	Place
	serves map[Place]time.Time // whom, and since when
}

// NewTracker lets everybody serve at most this many others at once.
func NewTracker(most int) *Tracker {
	return &Tracker{most: most, now: time.Now, blobs: map[fleet.Hash][]*holder{}}
}

// forgotten is the time for which a client without a report is counted.
const forgotten = time.Minute

// Holds makes the trainer a blob's first holder.
func (t *Tracker) Holds(name fleet.Hash, at Place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.blobs[name]) == 0 {
		t.blobs[name] = []*holder{{at, map[Place]time.Time{}}}
	}
}

// Drop lets go of a blob.
func (t *Tracker) Drop(name fleet.Hash) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.blobs, name)
}

// Where is who serves a blob to somebody; known: there is such a blob; free: somebody can serve it now.
func (t *Tracker) Where(name fleet.Hash, who Place) (from Place, known, free bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var least *holder
	for _, h := range t.blobs[name] {
		for whom, since := range h.serves {
			if whom == who || t.now().Sub(since) > forgotten {
				delete(h.serves, whom)
			}
		}
		if h.Place != who && (least == nil || len(h.serves) < len(least.serves)) {
			least = h
		}
	}
	if least == nil || len(least.serves) >= t.most {
		return from, least != nil, false
	}
	least.serves[who] = t.now()
	return least.Place, true, true
}

// Got reports that a client has a blob from another, and serves it. Nobody is believed who was not sent there.
func (t *Tracker) Got(name fleet.Hash, who, from Place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all, sent := t.blobs[name], false
	for _, h := range all {
		if _, serves := h.serves[who]; serves && h.Place == from {
			sent = true
			delete(h.serves, who)
		}
	}
	if sent && who.At != "" && !slices.ContainsFunc(all, func(h *holder) bool { return h.Place == who }) {
		t.blobs[name] = append(all, &holder{who, map[Place]time.Time{}})
	}
}

// Failed reports that a holder did not serve a blob to a client that was sent there.
func (t *Tracker) Failed(name fleet.Hash, who, from Place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.blobs[name]
	at := slices.IndexFunc(all, func(h *holder) bool {
		_, sent := h.serves[who]
		return sent && h.Place == from
	})
	switch {
	case at == 0:
		delete(all[0].serves, who)
	case at > 0:
		t.blobs[name] = slices.Delete(all, at, at+1)
	}
}
