package exchange

import (
	"fmt"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Host is a wire through the program's memory: every piece is downloaded once, and all are uploaded to
// each rank. It serves any backends, two on one device among them. Ranks copy side by side, and each on
// its own, so one that fails keeps no other; one that does not come back is left behind.
type Host struct {
	Ranks []kernels.Backend
	Limit time.Duration // how long a gathering may take; 0: UsualLimit
	all   []byte        // the last pieces
	why   error         // nothing is gathered any more
}

// Gather implements Wire.
func (h *Host) Gather(from, into []kernels.Span) error {
	if h.why != nil {
		return fmt.Errorf("nothing is gathered any more: %w", h.why)
	}
	if err := Check(len(h.Ranks), from, into); err != nil {
		return err
	}
	n := from[0].Len * from[0].DType.Size()
	if len(h.all) < n*len(h.Ranks) {
		h.all = make([]byte, n*len(h.Ranks))
	}
	all, team := h.all[:n*len(h.Ranks)], TeamOf(h.Limit, h.Ranks...)
	err := team.Together(len(h.Ranks), "gathering", func(r int) error {
		h.Ranks[r].Download(all[r*n:(r+1)*n], from[r])
		return nil
	})
	if err == nil {
		err = team.Together(len(h.Ranks), "gathering", func(r int) error {
			h.Ranks[r].Upload(into[r], all)
			return nil
		})
	}
	if err != nil {
		return h.cut(err)
	}
	return nil
}

// cut ends gathering, and lets the memory go: a rank that was left behind may still write to it.
func (h *Host) cut(why error) error {
	h.why, h.all = why, nil
	return why
}

// Wait has nothing to wait for: Gather returns when all is done.
func (h *Host) Wait() error { return h.why }

// Abort implements Wire.
func (h *Host) Abort(why error) error {
	if h.why == nil {
		_ = h.cut(why)
	}
	return nil
}

func (h *Host) String() string { return fmt.Sprintf("%d ranks, through host memory", len(h.Ranks)) }

// Close lets its memory go.
func (h *Host) Close() error {
	h.all = nil
	return nil
}
