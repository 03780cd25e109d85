package exchange

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// Card: the sum over ranks, in fp32,
//
//	s = ((g_0 + g_1) + g_2) + ...
//
// rounded after every addition, denormals flushed, on every rank. Libraries of collectives reduce
// along rings and trees that they choose by size, wires and version; here they only gather, a piece
// after another so that little more memory is needed, and each rank adds for itself. That moves
// (ranks-1) times what a rank has to each of them, where a ring moves twice: adapters are small, and
// of whole models a piece travels while nothing else does (not overlapped with backward yet).
//
// Invariants (tests): the bits of Plain, whatever the wire, the piece and the backend; all ranks
// have the same.

// Sum adds up what ranks have.
type Sum struct {
	Ranks []kernels.Backend
	Wire  Wire
	Piece int // most numbers of a rank that travel at once; 0: 4 Mi
}

const usualPiece = 4 << 20

// Add replaces spans[r][k], which lies on rank r, by the sum over r.
func (s *Sum) Add(spans [][]kernels.Span) error {
	longest, err := s.check(spans)
	if err != nil || longest == 0 {
		return err
	}
	piece := s.Piece
	if piece <= 0 {
		piece = usualPiece
	}
	piece = min(piece, longest)
	room := make([]*kernels.Buffer, len(s.Ranks))
	for r, be := range s.Ranks {
		room[r] = be.Alloc(len(s.Ranks) * piece * kernels.F32.Size())
		defer be.Free(room[r])
	}
	for k := range spans[0] {
		for lo := 0; lo < spans[0][k].Len; lo += piece {
			if err := s.piece(spans, k, lo, min(lo+piece, spans[0][k].Len), room); err != nil {
				return fmt.Errorf("adding up over %d ranks: %w", len(s.Ranks), err)
			}
		}
	}
	return nil
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
	for r, be := range s.Ranks {
		sum := into[r].Slice(0, n)
		for other := 1; other < len(s.Ranks); other++ {
			be.Binary(&kernels.Binary{Op: kernels.Add, X: sum, Y: into[r].Slice(other*n, (other+1)*n), Z: from[r]})
			sum = from[r]
		}
	}
	return nil
}

// check returns the longest span.
func (s *Sum) check(spans [][]kernels.Span) (longest int, err error) {
	if len(spans) != len(s.Ranks) || len(spans) < 2 {
		return 0, fmt.Errorf("%d ranks have what is to be added up over %d; at least 2", len(spans), len(s.Ranks))
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

// Plain is the sum as it is defined, of one span: parts[r] is rank r's.
func Plain(parts [][]float32) []float32 {
	sum := make([]float32, len(parts[0]))
	for i := range sum {
		sum[i] = ref.Flush(parts[0][i])
		for _, part := range parts[1:] {
			sum[i] = ref.Flush(sum[i] + ref.Flush(part[i]))
		}
	}
	return sum
}
