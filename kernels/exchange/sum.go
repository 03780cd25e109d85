package exchange

import (
	"errors"
	"fmt"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Card: the sum over ranks, in fp32,
//
//	s = ((g_0 + g_1) + g_2) + ...
//
// rounded after every addition, denormals flushed, on every rank. With shards, a rank's gradient is the sum of a
// subtree of a binary tree over all shards (Owned), and the ranks' sums are added in the order of the upper tree:
//
//	s = (g_0 + g_1) + (g_2 + g_3)    four ranks, four shards or more
//
// so that the bits are those of the shards, whatever the number of ranks. Libraries of collectives reduce along rings
// and trees that they choose by size, wires and version; here they only gather, a piece after another so that little
// more memory is needed, and each rank adds for itself. That moves (ranks-1) times a rank's data to each of them, where
// a ring moves twice: adapters are small, and of whole models a piece travels while nothing else does (not overlapped
// with backward yet).
//
// Invariants (tests): the bits of kerneltest.Sum, whatever the wire, the piece and the backend; all ranks
// have the same.

// Sum adds up ranks' data.
type Sum struct {
	Ranks []kernels.Backend
	Wire  Wire
	// Shards are the leaves of the tree that the ranks share, at least as many as ranks; 0: ranks are added in order.
	Shards int
	Piece  int           // most numbers of a rank that travel at once; 0: 4 Mi
	Limit  time.Duration // how long ranks wait for one that does not come; 0: UsualLimit
}

// A Subtree is the shards Lo to Hi-1 of one rank.
type Subtree struct{ Lo, Hi int }

// Middle parts a node of the tree of shards into a lower and an upper half.
func Middle(lo, hi int) int { return lo + (hi-lo)/2 }

// Owned are the subtrees of ranks, in order: each rank has one, of about as many shards as the others. There are at
// least as many shards as ranks.
func Owned(shards, ranks int) (all []Subtree) {
	part(0, shards, ranks, func(lo, hi int) { all = append(all, Subtree{lo, hi}) }, func() {})
	return all
}

// Nodes are the largest subtrees of the tree of shards that cover a run of these, in order.
func Nodes(shards int, run Subtree) []Subtree { return nodesOf(Subtree{0, shards}, run) }

func nodesOf(t, run Subtree) []Subtree {
	switch {
	case run.Hi <= t.Lo || t.Hi <= run.Lo:
		return nil
	case run.Lo <= t.Lo && t.Hi <= run.Hi:
		return []Subtree{t}
	}
	mid := Middle(t.Lo, t.Hi)
	return append(nodesOf(Subtree{t.Lo, mid}, run), nodesOf(Subtree{mid, t.Hi}, run)...)
}

// Share is a rank's share of n things: a run of consecutive ones, so that a rank's sums are sums over
// its things in their order. Shares differ by one at most.
func Share(rank, ranks, n int) (lo, hi int) { return rank * n / ranks, (rank + 1) * n / ranks }

// part walks the tree down to subtrees of one rank, and calls each with them. join is called for a node after both of
// its halves.
func part(lo, hi, ranks int, each func(lo, hi int), join func()) {
	if ranks == 1 {
		each(lo, hi)
		return
	}
	mid := Middle(lo, hi)
	lower := min(max((ranks+1)/2, ranks-(hi-mid)), mid-lo)
	part(lo, mid, lower, each, join)
	part(mid, hi, ranks-lower, each, join)
	join()
}

const usualPiece = 4 << 20

// mostQueued is how many pieces are gathered before all of them are waited for: a device takes a number of launches
// before the next one waits for room, and a rank must not wait there for one that is lost.
const mostQueued = 64

// Add replaces spans[r][k], which lies on rank r, by the sum over r. Where a rank fails, no other is
// left waiting for it: the wire is aborted, and the error is that of the rank which failed first.
func (s *Sum) Add(spans [][]kernels.Span) error {
	longest, err := s.check(spans)
	if err != nil || longest == 0 {
		return err
	}
	if err := s.add(spans, longest); err != nil {
		err = fmt.Errorf("adding up over %d ranks: %w", len(s.Ranks), err)
		return errors.Join(err, s.Wire.Abort(err))
	}
	return nil
}

func (s *Sum) add(spans [][]kernels.Span, longest int) error {
	piece := s.Piece
	if piece <= 0 {
		piece = usualPiece
	}
	piece = min(piece, longest)
	room := make([]*kernels.Buffer, len(s.Ranks))
	err := s.each("making room", func(r int) error {
		room[r] = s.Ranks[r].Alloc(len(s.Ranks) * piece * kernels.F32.Size())
		return nil
	})
	queued := 0
	for k := range spans[0] {
		for lo := 0; lo < spans[0][k].Len && err == nil; lo += piece {
			err = s.piece(spans, k, lo, min(lo+piece, spans[0][k].Len), room)
			if queued++; err == nil && queued%mostQueued == 0 {
				err = s.Wire.Wait()
			}
		}
	}
	if err == nil {
		err = s.Wire.Wait()
	}
	if !LeftBehind(err) { // or a rank may still be at it
		for r, be := range s.Ranks {
			if room[r] != nil {
				be.Free(room[r])
			}
		}
	}
	return err
}

func (s *Sum) each(what string, f func(rank int) error) error {
	return TeamOf(s.Limit, s.Ranks...).Together(len(s.Ranks), what, f)
}

// piece adds up numbers lo to hi-1 of the k-th spans.
func (s *Sum) piece(spans [][]kernels.Span, k, lo, hi int, room []*kernels.Buffer) error {
	n := hi - lo
	from, into := make([]kernels.Span, len(s.Ranks)), make([]kernels.Span, len(s.Ranks))
	for r := range s.Ranks {
		from[r] = spans[r][k].Slice(lo, hi)
		into[r] = kernels.Span{Buf: room[r], Len: len(s.Ranks) * n, DType: kernels.F32}
	}
	if err := s.Wire.Gather(from, into); err != nil {
		return err
	}
	return s.each("adding up", func(r int) error {
		parts := make([]kernels.Span, len(s.Ranks))
		for other := range parts {
			parts[other] = into[r].Slice(other*n, (other+1)*n)
		}
		addParts(s.Ranks[r], parts, s.Shards, from[r])
		return nil
	})
}

// check returns the longest span.
func (s *Sum) check(spans [][]kernels.Span) (longest int, err error) {
	if len(spans) != len(s.Ranks) || len(spans) < 2 {
		return 0, fmt.Errorf("%d ranks have what is to be added up over %d; at least 2", len(spans), len(s.Ranks))
	}
	if s.Shards != 0 && s.Shards < len(s.Ranks) {
		return 0, fmt.Errorf("%d ranks share %d shards", len(s.Ranks), s.Shards)
	}
	for r := range spans {
		if len(spans[r]) != len(spans[0]) {
			return 0, fmt.Errorf("rank %d has %d gradients, and rank 0 has %d", r, len(spans[r]), len(spans[0]))
		}
		for k, x := range spans[r] {
			if x.Len != spans[0][k].Len || x.DType != kernels.F32 {
				return 0, fmt.Errorf("gradient %d is %d numbers of %s on rank %d, and %d of f32 on rank 0", k, x.Len, x.DType, r, spans[0][k].Len)
			}
			longest = max(longest, x.Len)
		}
	}
	return longest, nil
}
