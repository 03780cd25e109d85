package exchange

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
)

// A Wire copies between ranks. It is called from one goroutine, for all ranks at once.
type Wire interface {
	// Gather copies every rank's piece to every rank: into[r] becomes from[0], from[1], ... one after
	// another. from[r] and into[r] lie on rank r and do not overlap; pieces have one type and
	// one length. It comes after what was asked of the ranks' backends before, and before what is
	// asked of them next.
	Gather(from, into []kernels.Span) error
	// Wait returns when what was gathered, and what was asked of the ranks since, is done on every rank.
	// The error is the first rank's that failed, or that one does not come: nothing waits for it longer
	// than the wire's limit.
	Wait() error
	// Abort ends what is being gathered, so that no rank waits for another any more. What was to arrive
	// is lost, and nothing can be gathered from then on; why is what Gather says then.
	Abort(why error) error
	String() string // what carries, for people
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
