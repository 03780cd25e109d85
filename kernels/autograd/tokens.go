package autograd

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Card: several ranks compute one pass (DeepSpeed-Ulysses; Jacobs et al., 2023, arXiv 2309.14509). Each has a tape of
// its own, and a share of the tokens of every sample. With K ranks and a sequence of S tokens, rank r has
//
//	[r·S/K, (r+1)·S/K)    with all heads, outside of attention
//	all S tokens          with heads [r·H/K, (r+1)·H/K), in it; K is at most H
//
// and the two are exchanged (ToHeads before attention, ToTokens behind it). A sequence may have parts, such as a text
// and a picture, each of which is shared alike: the keys of a head lie in the order that one device has, so that its
// attention has one device's bits. Everything else works on rows, whose bits do not depend on how many there are:
// products, norms over channels, modulations, and attention to keys that all ranks have. So a pass has the bits of one
// device. Each rank computes time, and text that no layer changes, for itself.
//
// Backward is the same exchanges in reverse. A rank's gradient of a parameter is the sum over its own rows, through
// conditions and texts as far as its own tokens read them. The gradient of the pass is the sum over ranks, which
// exchange.Sum adds in a binary tree: its bits depend on K, and not on the number of devices that K ranks lie on. A
// rank's gradient of latents is its part of the sum, too.
//
// A model parts its tokens once (OwnTokens), exchanges them around each attention of tokens to each other, and joins
// the output (AllTokens). On a tape of one rank these operations return their operand.
//
// Invariants (tests): outputs are those of one rank, to the last bit; the sum of gradients is that of one rank but for
// rounding, and has the same bits on any number of devices, and for any blocks that run again.

// Tokens is a rank's place among those that share the tokens of a pass.
type Tokens struct {
	Rank, Ranks int
	Meeting     Exchanger // not used on a dry pool
	Sent        int64     // bytes that the rank gave others so far
}

// An Exchanger brings pieces to other ranks and theirs here: an exchange.Meeting.
type Exchanger interface {
	Trade(rank int, from, into kernels.Span) error
	Spread(rank int, from, into kernels.Span) error
}

// sequence is the layout of tokens [B, S, ...] whose parts are shared out.
type sequence struct {
	*Tokens
	batch int
	parts []int // tokens of each
	all   int   // tokens of all parts
	most  int   // tokens of a rank, at most
}

// sequenceOf is that of a batch.
func (tp *Tape) sequenceOf(batch int, parts []int) sequence {
	s := sequence{Tokens: tp.Tokens, batch: batch, parts: parts}
	for _, n := range parts {
		s.all += n
	}
	for r := range s.Ranks {
		s.most = max(s.most, s.of(r))
	}
	return s
}

// of is how many tokens a rank has.
func (s sequence) of(rank int) (n int) {
	for _, part := range s.parts {
		lo, hi := exchange.Share(rank, s.Ranks, part)
		n += hi - lo
	}
	return n
}

// stretches calls f with the place of a rank's tokens of each part: among its own, and among all.
func (s sequence) stretches(rank int, f func(own, at, n int)) {
	own, first := 0, 0
	for _, part := range s.parts {
		lo, hi := exchange.Share(rank, s.Ranks, part)
		if hi > lo {
			f(own, first+lo, hi-lo)
		}
		own, first = own+hi-lo, first+part
	}
}

// Alone reports whether the tape has all tokens.
func (tp *Tape) Alone() bool { return tp.Tokens == nil || tp.Tokens.Ranks == 1 }

// HeadsHere is how many of a number of heads the tape has in attention.
func (tp *Tape) HeadsHere(heads int) int {
	if tp.Alone() {
		return heads
	}
	if heads < tp.Tokens.Ranks {
		panic(fmt.Sprintf("autograd: %d heads for %d ranks", heads, tp.Tokens.Ranks))
	}
	lo, hi := exchange.Share(tp.Tokens.Rank, tp.Tokens.Ranks, heads)
	return hi - lo
}

// TokensHere is how many tokens of a part the tape has outside of attention.
func (tp *Tape) TokensHere(part int) int {
	if tp.Alone() {
		return part
	}
	lo, hi := exchange.Share(tp.Tokens.Rank, tp.Tokens.Ranks, part)
	return hi - lo
}

// OwnTokens is the tape's share of the tokens of x [B, S, C]; of each of several parts, where their lengths are given.
// It lets go of x.
func (tp *Tape) OwnTokens(x *Value, parts ...int) *Value {
	if tp.Alone() {
		return x
	}
	if len(parts) == 0 {
		parts = []int{x.Dim(1)}
	}
	s := tp.sequenceOf(x.Dim(0), parts)
	s.check("OwnTokens", x.t, s.all)
	y := tp.result("own tokens", tp.pool.New(x.t.DType(), s.batch, s.of(s.Rank), x.Dim(2)), x)
	own := func(whole, part *tensor.Tensor, back bool) { tp.place(s, s.Rank, whole, part.Span(), back) }
	own(x.t, y.t, false)
	if n := tp.record(y); n != nil {
		n.back = func() {
			dx := tp.pool.Zeros(y.grad.DType(), x.Shape()...)
			own(dx, y.grad, true)
			tp.give(x, dx)
		}
	}
	tp.Release(x)
	return y
}

// ToHeads gives tokens to other ranks and takes theirs: of the share x [B, N, H·D] of a sequence with parts of these
// lengths it makes all tokens of the tape's own heads [B, S, HeadsHere(H)·D]. It lets go of x.
func (tp *Tape) ToHeads(x *Value, heads int, parts ...int) *Value {
	if tp.Alone() {
		return x
	}
	s := tp.sequenceOf(x.Dim(0), parts)
	s.check("ToHeads", x.t, s.of(s.Rank))
	h := columns{heads, x.Dim(2) / heads}
	y := tp.result("all tokens of some heads", tp.toHeads(s, h, x.t), x)
	if n := tp.record(y); n != nil {
		n.back = func() { tp.give(x, tp.toTokens(s, h, y.grad)) }
	}
	tp.Release(x)
	return y
}

// ToTokens is the way back: of all tokens of the tape's heads x [B, S, HeadsHere(H)·D] it makes the tape's tokens, with
// all heads [B, N, H·D]. It lets go of x.
func (tp *Tape) ToTokens(x *Value, heads int, parts ...int) *Value {
	if tp.Alone() {
		return x
	}
	s := tp.sequenceOf(x.Dim(0), parts)
	s.check("ToTokens", x.t, s.all)
	h := columns{heads, x.Dim(2) / tp.HeadsHere(heads)}
	y := tp.result("some tokens of all heads", tp.toTokens(s, h, x.t), x)
	if n := tp.record(y); n != nil {
		n.back = func() { tp.give(x, tp.toHeads(s, h, y.grad)) }
	}
	tp.Release(x)
	return y
}

// AllTokens joins the shares x [B, N, C] of all ranks to [B, S, C] on each of them. Backward begins with one gradient
// of it, which all ranks have. It lets go of x.
func (tp *Tape) AllTokens(x *Value, parts ...int) *Value {
	if tp.Alone() {
		return x
	}
	s := tp.sequenceOf(x.Dim(0), parts)
	s.check("AllTokens", x.t, s.of(s.Rank))
	cols := x.Dim(2)
	from, into := tp.pool.New(x.t.DType(), s.batch*s.most*cols), tp.pool.New(x.t.DType(), s.Ranks, s.batch*s.most*cols)
	defer from.Free()
	defer into.Free()
	tp.copyEither(kernels.Copy{Src: x.t.Span(), Dst: from.Span(), Shape: [5]int{1, 1, 1, 1, x.t.Len()}, SrcStride: [5]int{4: 1}, DstStride: [5]int{4: 1}}, false)
	tp.exchange(s, from.Len()*from.DType().Size(), func() error { return s.Meeting.Spread(s.Rank, from.Span(), into.Span()) })
	y := tp.result("all tokens", tp.pool.New(x.t.DType(), s.batch, s.all, cols), x)
	tp.byTokens(s, y.t, into, true)
	if n := tp.record(y); n != nil {
		n.back = func() {
			dx := tp.pool.New(y.grad.DType(), x.Shape()...)
			tp.place(s, s.Rank, y.grad, dx.Span(), false)
			tp.give(x, dx)
		}
	}
	tp.Release(x)
	return y
}

// check panics on values of another shape.
func (s sequence) check(what string, t *tensor.Tensor, tokens int) {
	if t.Rank() != 3 || t.Dim(1) != tokens || !t.Contiguous() {
		panic(fmt.Sprintf("autograd: %s of %v: [B, %d, C] without gaps was expected, of parts %v", what, t, tokens, append([]int(nil), s.parts...)))
	}
}

// columns are those of heads: their number, and that of each one's columns.
type columns struct{ heads, dim int }

// of are the columns of a rank's heads.
func (h columns) of(s sequence, rank int) (lo, hi int) {
	lo, hi = exchange.Share(rank, s.Ranks, h.heads)
	return lo * h.dim, hi * h.dim
}

// piece is the length of a piece that a rank gives another: room for the most tokens and the most heads of any.
func (h columns) piece(s sequence) int {
	return s.batch * s.most * ((h.heads + s.Ranks - 1) / s.Ranks) * h.dim
}

// toHeads is ToHeads of memory.
func (tp *Tape) toHeads(s sequence, h columns, x *tensor.Tensor) *tensor.Tensor {
	pieces := tp.pool.New(x.DType(), s.Ranks, h.piece(s))
	tp.byHeads(s, h, x, pieces, false)
	taken := tp.trade(s, pieces)
	defer taken.Free()
	lo, hi := h.of(s, s.Rank)
	y := tp.pool.New(x.DType(), s.batch, s.all, hi-lo)
	tp.byTokens(s, y, taken, true)
	return y
}

// toTokens is ToTokens of memory.
func (tp *Tape) toTokens(s sequence, h columns, x *tensor.Tensor) *tensor.Tensor {
	pieces := tp.pool.New(x.DType(), s.Ranks, h.piece(s))
	tp.byTokens(s, x, pieces, false)
	taken := tp.trade(s, pieces)
	defer taken.Free()
	y := tp.pool.New(x.DType(), s.batch, s.of(s.Rank), h.heads*h.dim)
	tp.byHeads(s, h, y, taken, true)
	return y
}

// trade gives pieces away, one a rank, and returns those of the others.
func (tp *Tape) trade(s sequence, pieces *tensor.Tensor) *tensor.Tensor {
	defer pieces.Free()
	taken := tp.pool.New(pieces.DType(), pieces.Shape()...)
	tp.exchange(s, pieces.Cols()*pieces.DType().Size(), func() error { return s.Meeting.Trade(s.Rank, pieces.Span(), taken.Span()) })
	return taken
}

// byHeads copies columns of the tape's tokens to a piece for each rank, or back.
func (tp *Tape) byHeads(s sequence, h columns, x, pieces *tensor.Tensor, back bool) {
	n, all := s.of(s.Rank), h.heads*h.dim
	for r := range s.Ranks {
		lo, hi := h.of(s, r)
		tp.copyEither(kernels.Copy{Src: x.Span().Slice(min(lo, x.Len()), x.Len()), Dst: pieceOf(pieces, r), Shape: [5]int{1, 1, 1, s.batch * n, hi - lo},
			SrcStride: [5]int{0, 0, 0, all, 1}, DstStride: [5]int{0, 0, 0, hi - lo, 1}}, back)
	}
}

// byTokens copies tokens of some heads to a piece for each rank, or back.
func (tp *Tape) byTokens(s sequence, x, pieces *tensor.Tensor, back bool) {
	for r := range s.Ranks {
		tp.place(s, r, x, pieceOf(pieces, r), back)
	}
}

// pieceOf is the piece for a rank, or of it.
func pieceOf(pieces *tensor.Tensor, rank int) kernels.Span {
	return pieces.Span().Slice(rank*pieces.Cols(), (rank+1)*pieces.Cols())
}

// place copies a rank's tokens from all of them to memory of their own, or back.
func (tp *Tape) place(s sequence, rank int, whole *tensor.Tensor, own kernels.Span, back bool) {
	cols, n := whole.Cols(), s.of(rank)
	s.stretches(rank, func(mine, at, tokens int) {
		tp.copyEither(kernels.Copy{Src: whole.Span().Slice(at*cols, whole.Len()), Dst: own.Slice(mine*cols, own.Len), Shape: [5]int{1, 1, s.batch, tokens, cols},
			SrcStride: [5]int{0, 0, s.all * cols, cols, 1}, DstStride: [5]int{0, 0, n * cols, cols, 1}}, back)
	})
}

// copyEither copies in one direction or the other.
func (tp *Tape) copyEither(c kernels.Copy, back bool) {
	if c.Shape[1]*c.Shape[2]*c.Shape[3]*c.Shape[4] == 0 {
		return
	}
	if back {
		c.Src, c.Dst, c.SrcStride, c.DstStride = c.Dst, c.Src, c.DstStride, c.SrcStride
	}
	tp.be.Copy(&c)
}

// exchange gives other ranks a number of bytes each, and waits for theirs. A failure is the pass's.
func (tp *Tape) exchange(s sequence, bytes int, meet func() error) {
	s.Sent += int64((s.Ranks - 1) * bytes)
	if tp.pool.Dry() {
		return
	}
	if err := meet(); err != nil {
		panic(exchangeError{err, tp.be.Name()})
	}
}

// exchangeError is a kernels.DeviceError: a pass has no other way out.
type exchangeError struct {
	error
	device string
}

func (e exchangeError) Unwrap() error    { return e.error }
func (e exchangeError) OnDevice() string { return e.device }
