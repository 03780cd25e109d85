package exchange

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Card: ranks that compute parts of one pass, each on a goroutine of its own, and exchange pieces in the midst of it.
// A rank that comes to an exchange waits for the others. The last one carries all pieces, by a wire:
//
//	Trade    piece s of rank r becomes piece r of rank s (all-to-all)
//	Spread   the piece of every rank becomes one of each rank, in the order of ranks (all-gather)
//
// Pieces are copied, and nothing is added: no bit depends on the wire.
//
// Invariants (tests): all ranks come to the same exchange, or fail; a rank that does not come is named after the limit;
// where one fails (Abort), no other waits for it any longer.

// A Meeting is where such ranks exchange pieces.
type Meeting struct {
	Ranks []kernels.Backend
	Wire  Wire
	Limit time.Duration // how long a rank waits for another; 0: UsualLimit
	Team  Team          // of the ranks at work: of those on one backend, others work while one waits here

	mu      sync.Mutex
	turn    *turn
	gone    chan struct{} // closed by Abort
	why     error         // of the last Abort
	carried int           // exchanges since the wire was last waited for
}

// A turn is one exchange.
type turn struct {
	what       string
	from, into []kernels.Span
	here       []bool
	left       int // ranks that are still to come
	done       chan struct{}
	err        error
}

// A Trader is a Wire's further interface where it carries pieces to single ranks. Without it all pieces come to all
// ranks, and each takes its own.
type Trader interface {
	// Trade copies piece s of from[r] to piece r of into[s], with pieces of one length: a span is one a rank. It comes
	// after all earlier work of the ranks' backends, and before all later work.
	Trade(from, into []kernels.Span) error
}

// Trade gives piece s of from to rank s, and takes a piece of each rank, in the order of ranks.
func (m *Meeting) Trade(rank int, from, into kernels.Span) error {
	return m.meet(rank, "trading pieces", from, into)
}

// Spread gives a piece to each rank, and takes one of each.
func (m *Meeting) Spread(rank int, from, into kernels.Span) error {
	return m.meet(rank, "spreading pieces", from, into)
}

// Begin makes a meeting that was aborted as new. No rank is at an exchange.
func (m *Meeting) Begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn, m.gone, m.why = nil, nil, nil
}

// Abort ends the waiting of all ranks, until the next Begin.
func (m *Meeting) Abort(why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.why == nil {
		m.why = why
		close(m.ended())
	}
}

// ended is closed by Abort.
func (m *Meeting) ended() chan struct{} {
	if m.gone == nil {
		m.gone = make(chan struct{})
	}
	return m.gone
}

// meet waits for all ranks. The last one carries the pieces.
func (m *Meeting) meet(rank int, what string, from, into kernels.Span) error {
	m.mu.Lock()
	if m.why != nil {
		defer m.mu.Unlock()
		return m.why
	}
	gone := m.ended()
	if m.turn == nil {
		n := len(m.Ranks)
		m.turn = &turn{what: what, from: make([]kernels.Span, n), into: make([]kernels.Span, n), here: make([]bool, n), left: n, done: make(chan struct{})}
	}
	t := m.turn
	if t.what != what || t.here[rank] {
		m.mu.Unlock()
		return fmt.Errorf("rank %d is %s, and others are %s: ranks compute different passes", rank, what, t.what)
	}
	t.from[rank], t.into[rank], t.here[rank] = from, into, true
	t.left--
	last := t.left == 0
	if last {
		m.turn = nil
	}
	m.mu.Unlock()
	if last {
		defer close(t.done)
		t.err = errors.New("the pieces were not carried") // where carry panics
		t.err = m.carry(t)
		return t.err
	}
	return m.Team.rests(rank, func() error {
		limit := cmp.Or(m.Limit, UsualLimit)
		timer := time.NewTimer(limit)
		defer timer.Stop()
		select {
		case <-t.done:
			return t.err
		case <-gone:
			m.mu.Lock()
			defer m.mu.Unlock()
			return cmp.Or(m.why, errors.New("another rank has failed"))
		case <-timer.C:
			return m.Team.waited(rank, m.late(t, limit))
		}
	})
}

// late is the error of a rank that waited too long: it names the first one that did not come.
func (m *Meeting) late(t *turn, limit time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for r, here := range t.here {
		if !here {
			return TeamOf(m.Limit, m.Ranks...).failure(r, fmt.Errorf("%s: it has not come within %v, and the others wait for it", t.what, limit))
		}
	}
	return fmt.Errorf("%s takes longer than %v", t.what, limit)
}

// carry copies a turn's pieces.
func (m *Meeting) carry(t *turn) (err error) {
	switch trader, ok := m.Wire.(Trader); {
	case t.what == "spreading pieces":
		err = m.Wire.Gather(t.from, t.into)
	case ok:
		err = trader.Trade(t.from, t.into)
	default:
		err = m.gathered(t)
	}
	if m.carried++; err == nil && m.carried%mostQueued == 0 {
		err = m.Wire.Wait()
	}
	if err != nil {
		err = fmt.Errorf("%s between %d ranks: %w", t.what, len(m.Ranks), err)
	}
	return err
}

// gathered is a trade by a wire that gathers alone.
func (m *Meeting) gathered(t *turn) error {
	n := len(m.Ranks)
	all := make([]kernels.Span, n)
	team := TeamOf(m.Limit, m.Ranks...)
	for r, from := range t.from {
		all[r] = kernels.Span{Buf: m.Ranks[r].Alloc(n * from.Len * from.DType.Size()), Len: n * from.Len, DType: from.DType}
	}
	if err := m.Wire.Gather(t.from, all); err != nil {
		return err // the memory may still be written to
	}
	err := team.Together(n, t.what, func(r int) error {
		whole := t.from[r].Len
		each := whole / n
		m.Ranks[r].Copy(&kernels.Copy{Src: all[r].Slice(r*each, n*whole), Dst: t.into[r], Shape: [5]int{1, 1, 1, n, each},
			SrcStride: [5]int{3: whole, 4: 1}, DstStride: [5]int{3: each, 4: 1}})
		return nil
	})
	if err == nil {
		err = m.Wire.Wait() // before the memory is used for something else
	}
	if err == nil {
		for r, be := range m.Ranks {
			be.Free(all[r].Buf)
		}
	}
	return err
}

// Trade implements Trader.
func (h *Host) Trade(from, into []kernels.Span) error {
	if h.why != nil {
		return fmt.Errorf("nothing is traded any more: %w", h.why)
	}
	ranks := len(h.Ranks)
	if err := checkTrade(ranks, from, into); err != nil {
		return err
	}
	n, size := from[0].Len, from[0].DType.Size()
	if len(h.all) < n*size*ranks {
		h.all = make([]byte, n*size*ranks)
	}
	all, team := h.all[:n*size*ranks], TeamOf(h.Limit, h.Ranks...)
	err := team.Together(ranks, "trading pieces", func(r int) error {
		h.Ranks[r].Download(all[r*n*size:(r+1)*n*size], from[r])
		return nil
	})
	if err == nil {
		err = team.Together(ranks, "trading pieces", func(r int) error {
			each := n / ranks
			for s := range ranks {
				at := (s*n + r*each) * size
				h.Ranks[r].Upload(into[r].Slice(s*each, (s+1)*each), all[at:at+each*size])
			}
			return nil
		})
	}
	if err != nil {
		return h.cut(err)
	}
	return nil
}

// checkTrade reports operands of Trade that do not fit together.
func checkTrade(ranks int, from, into []kernels.Span) error {
	if len(from) != ranks || len(into) != ranks {
		return fmt.Errorf("trading from %d into %d places, among %d ranks", len(from), len(into), ranks)
	}
	for r := range from {
		switch {
		case from[r].DType != from[0].DType || into[r].DType != from[0].DType:
			return fmt.Errorf("trading %s of rank %d for %s, with %s of rank 0", from[r].DType, r, into[r].DType, from[0].DType)
		case from[r].Len != from[0].Len || into[r].Len != from[0].Len:
			return fmt.Errorf("rank %d gives %d numbers and takes %d, and rank 0 gives %d", r, from[r].Len, into[r].Len, from[0].Len)
		case from[r].Len%ranks != 0:
			return fmt.Errorf("rank %d gives %d numbers to %d ranks", r, from[r].Len, ranks)
		}
	}
	return nil
}
