package exchange

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Card: an ordered reduce-scatter. Each gradient has an owner among the ranks. The owner copies the other ranks' pieces
// of the gradient, one after another, and adds them as Sum does: in the order of ranks, or of the tree of shards. So
// its bits are those of Sum. The gradients of the other ranks stay as they are, and are worth nothing afterwards.
//
// Owners work side by side, and each rank receives (W-1)/W of the gradient, where gathering moves W-1 times all of it.
// Beside the gradients an owner needs the memory of one piece, whatever the number of ranks.
//
// A rank copies from where a number lies, and no other rank has a part in that (Puller). So there is no library of
// collectives, and no order of calls that all ranks must keep.
//
// Invariants (tests): the bits of Sum; bytes copied = (W-1)/W of the gradients of all ranks; one piece more memory.

// Reduction adds up ranks' data where its owners are.
type Reduction struct {
	Ranks  []kernels.Backend
	Shards int           // as Sum's
	Piece  int           // numbers of the memory beside the gradients; 0: 4 Mi
	Limit  time.Duration // how long ranks wait for one that does not come; 0: UsualLimit
	Lines  *Lines        // that copy; nil: none are counted
}

// Own replaces spans[r][k] by the sum over ranks where owner[k] is r.
func (d *Reduction) Own(spans [][]kernels.Span, owner []int) error {
	check := Sum{Ranks: d.Ranks, Shards: d.Shards}
	longest, err := check.check(spans)
	if err != nil || longest == 0 {
		return err
	}
	if len(owner) != len(spans[0]) {
		return fmt.Errorf("%d gradients have %d owners", len(spans[0]), len(owner))
	}
	team := TeamOf(d.Limit, d.Ranks...)
	if err = team.Together(len(d.Ranks), "ending backward", func(r int) error {
		d.Ranks[r].Sync()
		return nil
	}); err == nil {
		err = team.Together(len(d.Ranks), "adding up", func(r int) error { return d.of(r, spans, owner) })
	}
	if err != nil {
		return fmt.Errorf("adding up over %d ranks: %w", len(d.Ranks), err)
	}
	return nil
}

// Room is the bytes of an owner's memory beside the gradients.
func Room(ranks int) int { return (ranks - 1) * max(1, usualPiece/(ranks-1)) * kernels.F32.Size() }

// of adds up the gradients of one owner.
func (d *Reduction) of(r int, spans [][]kernels.Span, owner []int) error {
	if !slices.Contains(owner, r) {
		return nil
	}
	others := len(d.Ranks) - 1
	piece := d.Piece
	if piece <= 0 {
		piece = usualPiece
	}
	longest := 0
	for k, s := range spans[r] {
		if owner[k] == r {
			longest = max(longest, s.Len)
		}
	}
	each := max(1, min(piece/others, longest))
	be := d.Ranks[r]
	room := be.Alloc(others * each * kernels.F32.Size())
	parts := make([]kernels.Span, len(d.Ranks))
	for k, own := range spans[r] {
		if owner[k] != r {
			continue
		}
		for lo := 0; lo < own.Len; lo += each {
			hi, at := min(lo+each, own.Len), 0
			for from := range d.Ranks {
				if from == r {
					parts[from] = own.Slice(lo, hi)
					continue
				}
				parts[from] = kernels.Span{Buf: room, Off: at * each, Len: hi - lo, DType: kernels.F32}
				d.Lines.Copy(be, parts[from], d.Ranks[from], spans[from][k].Slice(lo, hi))
				at++
			}
			addParts(be, parts, d.Shards, own.Slice(lo, hi))
		}
	}
	be.Sync()
	be.Free(room)
	return nil
}

// addParts adds ranks' parts in their order, or in that of the tree of shards. The sum lies in into at the end, which
// may be one of the parts; the parts are overwritten.
func addParts(be kernels.Backend, parts []kernels.Span, shards int, into kernels.Span) {
	add := func(x, y, z kernels.Span) {
		be.Binary(&kernels.Binary{Op: kernels.Add, X: x, Y: y, Z: z})
	}
	if shards == 0 {
		sum := parts[0]
		for n, other := range parts[1:] {
			z := sum
			if n == len(parts)-2 {
				z = into
			}
			add(sum, other, z)
		}
		return
	}
	var sums []kernels.Span // of nodes whose other half is still to come
	rank := 0
	part(0, shards, len(parts), func(int, int) {
		sums = append(sums, parts[rank])
		rank++
	}, func() {
		last := len(sums) - 1
		z := sums[last-1]
		if last == 1 && rank == len(parts) { // the root
			z = into
		}
		add(sums[last-1], sums[last], z)
		sums = append(sums[:last-1], z)
	})
}

// A Puller is a Backend that copies from another one of its kind. The copy comes after its own earlier work. Work that
// wrote the source is done (Sync), and nothing writes it until the copy is done.
type Puller interface {
	kernels.Backend
	// Pull reports whether from is of the kind.
	Pull(dst kernels.Span, from kernels.Backend, src kernels.Span) bool
}

// Lines copy between backends, and count the bytes. They may be used by several goroutines.
type Lines struct {
	Bytes  atomic.Int64 // copied from a rank to another, or between a rank and the host
	Copies atomic.Int64
}

// Copy copies src to dst, which may lie on one backend. It is done with the other work that is queued on to.
func (l *Lines) Copy(to kernels.Backend, dst kernels.Span, from kernels.Backend, src kernels.Span) {
	if l != nil {
		l.Bytes.Add(int64(src.Len * src.DType.Size()))
		l.Copies.Add(1)
	}
	if src.Empty() {
		return
	}
	if src.Buf.Host != nil {
		to.Upload(dst, src.Raw())
		return
	}
	if dst.Buf.Host != nil {
		from.Download(dst.Raw(), src)
		return
	}
	if p, ok := to.(Puller); ok && p.Pull(dst, from, src) {
		return
	}
	bytes := make([]byte, src.Len*src.DType.Size())
	from.Download(bytes, src)
	to.Upload(dst, bytes)
}
