package exchange

import (
	"fmt"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
)

// A Wire copies between ranks. It is called from one goroutine, for all ranks at once.
type Wire interface {
	// Gather copies every rank's piece to every rank: into[r] becomes from[0], from[1], ... one after another.
	// from[r] and into[r] lie on rank r and do not overlap; pieces have one type and one length. It comes after all
	// earlier work of the ranks' backends, and before all later work.
	Gather(from, into []kernels.Span) error
	// Wait returns when the gathered pieces, and the ranks' work since, are done on every rank. The error is the
	// first rank's that failed, or that one does not come: nothing waits for it longer than the wire's limit.
	Wait() error
	// Abort ends the gathering, so that no rank waits for another any more. Pieces under way are lost, and nothing
	// can be gathered from then on; why is Gather's error then.
	Abort(why error) error
	String() string // the transport, for people
	Close() error
}

// Check reports operands of Gather that do not fit together.
func Check(ranks int, from, into []kernels.Span) error {
	if len(from) != ranks || len(into) != ranks {
		return fmt.Errorf("gathering from %d into %d places, among %d ranks", len(from), len(into), ranks)
	}
	for r := range from {
		switch {
		case from[r].DType != from[0].DType || into[r].DType != from[0].DType:
			return fmt.Errorf("gathering %s of rank %d into %s, with %s of rank 0", from[r].DType, r, into[r].DType, from[0].DType)
		case from[r].Len != from[0].Len:
			return fmt.Errorf("rank %d has a piece of %d numbers, and rank 0 of %d", r, from[r].Len, from[0].Len)
		case into[r].Len != ranks*from[0].Len:
			return fmt.Errorf("rank %d has room for %d numbers: %d pieces of %d are gathered", r, into[r].Len, ranks, from[0].Len)
		}
	}
	return nil
}

// Try gathers a KiB, and waits for it. Libraries connect ranks when they first gather, so a wire that cannot carry
// shows here, where another one can take its place.
func Try(w Wire, ranks []kernels.Backend) error {
	const bytes = 1 << 10
	from, into := make([]kernels.Span, len(ranks)), make([]kernels.Span, len(ranks))
	for r, b := range ranks {
		from[r] = kernels.Span{Buf: b.Alloc(bytes), Len: bytes, DType: kernels.U8}
		into[r] = kernels.Span{Buf: b.Alloc(bytes * len(ranks)), Len: bytes * len(ranks), DType: kernels.U8}
	}
	if err := w.Gather(from, into); err != nil {
		return err // the memory may still be written to
	}
	if err := w.Wait(); err != nil {
		return err
	}
	for r, b := range ranks {
		b.Free(from[r].Buf)
		b.Free(into[r].Buf)
	}
	return nil
}

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
