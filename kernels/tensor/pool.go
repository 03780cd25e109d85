package tensor

import (
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Memory is handed out in size classes, four to each power of two, so that a piece which was used for one shape
// serves the next of about that size: at most a quarter of a piece is unused. Lasting tensors (weights, their
// gradients, an optimiser's state) have shapes that come again, and sixteen classes to each power of two: at most a
// sixteenth.
//
// A backend that joins pieces which come back gets them at once, and is asked for no more than a tensor has.
//
// Invariant (tests): the same work done twice takes the same pieces, and nothing new.

// smallest is the size of each kind's first class.
const smallest = 256

// alone marks a piece of no class.
const alone = -1

// Classes to each power of two, of passing tensors and of lasting ones, whose classes follow.
const (
	coarse, fine = 4, 16
	coarseOnes   = 40 * coarse
)

// Pool lends memory of a backend.
type Pool struct {
	backend kernels.Backend
	free    [40 * (coarse + fine)][]*storage // by class
	stats   Stats
	joins   bool // the backend joins pieces itself
	// Poison fills new tensors with NaN, for tests: a read before the first write shows.
	Poison bool
	// Limit is how much may be held while some of it waits, packed weights included: waiting pieces go back to the
	// backend, the largest first, before more is asked of it. 0: no limit.
	Limit int

	kept   []*kernels.Packed // dropped, whose memory waits for a weight of the same shape
	beside int               // bytes of packed weights, which count to Limit
	others atomic.Int64      // bytes of others in the same memory, which do, too
	trying bool
	lent   []loan // since Attempt began
}

// A loan is a piece as it was lent.
type loan struct {
	*storage
	of uint32 // generation
}

// Stats are sizes in bytes of the pieces lent, as classes round them.
type Stats struct {
	InUse, Peak int // lent now, and the most since ResetPeak
	Held        int // taken from the backend, lent or waiting
	Live        int // pieces lent now
	Allocs      int // pieces ever asked of the backend
}

// storage is a piece of memory. Its generation changes each time it comes back.
type storage struct {
	buf        *kernels.Buffer
	class      int // alone where the backend joins pieces
	bytes      int
	refs       int
	generation uint32
	lasting    bool
}

// NewPool is an empty pool over a backend.
func NewPool(b kernels.Backend) *Pool {
	j, ok := b.(interface{ Joins() bool })
	return &Pool{backend: b, joins: ok && j.Joins()}
}

// Backend is where the memory comes from.
func (p *Pool) Backend() kernels.Backend { return p.backend }

// Dry reports whether the backend computes nothing and only counts memory: numbers need not
// be read or made.
func (p *Pool) Dry() bool {
	_, ok := p.backend.(interface{ ComputesNothing() })
	return ok
}

// Bare reports whether, on a dry backend, weights that are counted need not even be on the disk.
func (p *Pool) Bare() bool {
	b, ok := p.backend.(interface{ Bare() bool })
	return ok && b.Bare()
}

// Stats has the lent memory.
func (p *Pool) Stats() Stats { return p.stats }

// ResetPeak starts the peak anew from the memory lent now.
func (p *Pool) ResetPeak() { p.stats.Peak = p.stats.InUse }

// Trim gives the memory that waits back to the backend.
func (p *Pool) Trim() { p.keepTo(0) }

// keepTo gives back memory that waits, that of packed weights and then the largest pieces first, until no more than
// most bytes are held.
func (p *Pool) keepTo(most int) {
	for p.stats.Held > most && len(p.kept) > 0 {
		p.freeKept()
	}
	for c := len(p.free) - 1; c >= 0; c-- {
		for p.stats.Held > most && len(p.free[c]) > 0 {
			last := len(p.free[c]) - 1
			p.backend.Free(p.free[c][last].buf)
			p.stats.Held -= classBytes(c)
			p.free[c][last] = nil
			p.free[c] = p.free[c][:last]
		}
	}
}

// New is a tensor whose contents are undefined.
func (p *Pool) New(d kernels.DType, shape ...int) *Tensor { return p.of(false, d, shape) }

// Lasting is New for lasting tensors.
func (p *Pool) Lasting(d kernels.DType, shape ...int) *Tensor { return p.of(true, d, shape) }

func (p *Pool) of(lasting bool, d kernels.DType, shape []int) *Tensor {
	class := classOf
	if lasting {
		class = lastingClassOf
	}
	t := &Tensor{pool: p, dtype: d}
	t.setShape(shape)
	t.stride = t.Cols()
	if n := t.Len() * d.Size(); p.joins {
		t.store = p.takeNew(alone, (max(n, 1)+smallest-1)/smallest*smallest)
	} else {
		t.store = p.take(class(n))
	}
	t.generation, t.store.lasting = t.store.generation, lasting
	if p.Poison {
		p.poison(t)
	}
	return t
}

// Zeros is a tensor of zeros.
func (p *Pool) Zeros(d kernels.DType, shape ...int) *Tensor { return p.cleared(p.New(d, shape...)) }

// LastingZeros is Zeros for lasting tensors.
func (p *Pool) LastingZeros(d kernels.DType, shape ...int) *Tensor {
	return p.cleared(p.Lasting(d, shape...))
}

func (p *Pool) cleared(t *Tensor) *Tensor {
	p.backend.Fill(t.Span(), 0)
	return t
}

func (p *Pool) take(c int) *storage {
	waiting := p.free[c]
	if len(waiting) == 0 {
		return p.takeNew(c, classBytes(c))
	}
	s := waiting[len(waiting)-1]
	p.free[c] = waiting[:len(waiting)-1]
	return p.lend(s)
}

func (p *Pool) takeNew(c, size int) *storage {
	s := &storage{class: c, bytes: size}
	p.ask(size, func() { s.buf = p.backend.Alloc(size) })
	p.stats.Held += size
	p.stats.Allocs++
	return p.lend(s)
}

func (p *Pool) lend(s *storage) *storage {
	s.refs = 1
	p.stats.Live++
	p.stats.InUse += s.bytes
	p.stats.Peak = max(p.stats.Peak, p.stats.InUse)
	if p.trying {
		if len(p.lent) == cap(p.lent) { // most came back
			p.lent = slices.DeleteFunc(p.lent, loan.back)
		}
		p.lent = append(p.lent, loan{s, s.generation})
	}
	return s
}

// back reports whether the piece came back.
func (l loan) back() bool { return l.generation != l.of }

// Attempt runs f. Where the backend has too little memory for it, passing tensors that f made are freed, all handles on
// them are void, and the failure is returned: f may be tried again with less.
func (p *Pool) Attempt(f func() error) (err error) {
	if p.trying {
		return f()
	}
	p.trying = true
	defer func() {
		made := p.lent
		p.trying, p.lent = false, nil
		failure := recover()
		if failure == nil {
			return
		}
		out, ok := failure.(interface {
			error
			MemoryIsOut() bool
		})
		if !ok || !out.MemoryIsOut() {
			panic(failure)
		}
		for _, l := range made {
			if !l.back() && !l.lasting {
				l.refs = 0
				p.giveBack(l.storage)
			}
		}
		p.Trim()
		err = out
	}()
	return f()
}

// Lasts makes a tensor a lasting one.
func (t *Tensor) Lasts() { t.store.lasting = true }

// ask takes memory of the backend. Waiting pieces go back to it first: those above Limit, and all where it has no more.
func (p *Pool) ask(size int, take func()) {
	p.clear(size)
	defer func() {
		switch failure := recover().(type) {
		case nil:
		case interface{ MemoryIsOut() bool }:
			if !failure.MemoryIsOut() || !p.spare() {
				panic(failure)
			}
			take()
		default:
			panic(failure)
		}
	}()
	take()
}

// clear makes room for size bytes below Limit.
func (p *Pool) clear(size int) {
	if p.Limit > 0 {
		p.keepTo(p.Limit - p.beside - int(p.others.Load()) - size)
	}
}

// spare gives all back that waits, and reports whether anything did.
func (p *Pool) spare() bool {
	if p.stats.Held == p.stats.InUse {
		return false
	}
	p.Trim()
	return true
}

// Pack is a weight in the form that products read. Its memory is the backend's own, and counts to Limit until Drop.
func (p *Pool) Pack(w kernels.Mat, m kernels.Math) *kernels.Packed {
	like := kernels.Packed{Math: m, N: w.Rows, K: w.Cols}
	on, ok := p.backend.(kernels.Repacker)
	if !ok {
		return p.packNew(like, func() *kernels.Packed { return p.backend.Pack(w, m) })
	}
	return p.pack(like, func(memory *kernels.Buffer) *kernels.Packed { return on.PackIn(memory, w, m) })
}

// Repacks reports whether PackCodes is possible.
func (p *Pool) Repacks() bool {
	_, ok := p.backend.(kernels.Repacker)
	return ok
}

// PackCodes is Pack of a compressed matrix, whose Dst has no memory.
func (p *Pool) PackCodes(a *kernels.Unpack, m kernels.Math) *kernels.Packed {
	on := p.backend.(kernels.Repacker)
	return p.pack(kernels.Packed{Math: m, N: a.Dst.Rows, K: a.Dst.Cols}, func(memory *kernels.Buffer) *kernels.Packed { return on.PackCodes(memory, a, m) })
}

// PackConv is Pack of a convolution's weight.
func (p *Pool) PackConv(w kernels.Span, s kernels.ConvShape, m kernels.Math) *kernels.Packed {
	like := kernels.Packed{Math: m, N: s.Out, K: s.KH * s.KW * s.In}
	return p.packNew(like, func() *kernels.Packed { return p.backend.PackConv(w, s, m) })
}

// pack packs into the memory of a weight of the same shape that was kept, or into new memory.
func (p *Pool) pack(like kernels.Packed, in func(memory *kernels.Buffer) *kernels.Packed) *kernels.Packed {
	for i, k := range p.kept {
		if k.Math == like.Math && k.N == like.N && k.K == like.K {
			p.kept = slices.Delete(p.kept, i, i+1)
			return p.packKept(k, in)
		}
	}
	return p.packNew(like, func() *kernels.Packed { return in(nil) })
}

// packKept packs into memory that no longer waits. After a failure it waits again.
func (p *Pool) packKept(k *kernels.Packed, in func(memory *kernels.Buffer) *kernels.Packed) (w *kernels.Packed) {
	p.stats.Held -= k.Buf.Bytes
	p.beside += k.Buf.Bytes
	defer func() {
		if w == nil {
			p.Yield(k)
			p.wait(k)
		}
	}()
	p.ask(0, func() { w = in(k.Buf) })
	return w
}

func (p *Pool) packNew(like kernels.Packed, on func() *kernels.Packed) (w *kernels.Packed) {
	p.ask(like.N*like.K*like.DType().Size(), func() { w = on() })
	p.beside += w.Buf.Bytes
	return w
}

// Drop frees a weight that Pack made.
func (p *Pool) Drop(w *kernels.Packed) {
	p.Yield(w)
	p.backend.Free(w.Buf)
}

// Keep is Drop of a matrix whose memory may wait for the next one of its shape.
func (p *Pool) Keep(w *kernels.Packed) {
	if !p.keeps() || w.Conv.KH > 0 {
		p.Drop(w)
		return
	}
	p.Yield(w)
	p.wait(&kernels.Packed{Math: w.Math, N: w.N, K: w.K, Buf: w.Buf})
}

// keeps reports whether memory of packed weights waits: where the backend packs into it, unless it says otherwise.
func (p *Pool) keeps() bool {
	b, ok := p.backend.(interface{ Keeps() bool })
	return p.Repacks() && (!ok || b.Keeps())
}

// wait adds memory that waits.
func (p *Pool) wait(k *kernels.Packed) {
	p.stats.Held += k.Buf.Bytes
	p.kept = append(p.kept, k)
}

// DropKept frees the memory of weights that waits.
func (p *Pool) DropKept() {
	for len(p.kept) > 0 {
		p.freeKept()
	}
}

// freeKept frees the memory that waits the longest.
func (p *Pool) freeKept() {
	memory := p.kept[0].Buf
	p.kept = slices.Delete(p.kept, 0, 1)
	p.stats.Held -= memory.Bytes
	p.backend.Free(memory)
}

// Others counts further bytes of the same memory to Limit, which somebody else takes (below 0: gives back), on any
// goroutine.
func (p *Pool) Others(bytes int) { p.others.Add(int64(bytes)) }

// Yield leaves a weight that Pack made to another, who frees it.
func (p *Pool) Yield(w *kernels.Packed) { p.beside -= w.Buf.Bytes }

func (p *Pool) giveBack(s *storage) {
	s.generation++
	p.stats.Live--
	p.stats.InUse -= s.bytes
	if s.class == alone {
		p.backend.Free(s.buf)
		p.stats.Held -= s.bytes
		return
	}
	p.free[s.class] = append(p.free[s.class], s)
}

// classOf is the smallest class that holds n bytes; lastingClassOf that of lasting tensors.
func classOf(n int) int        { return stepsTo(n, coarse) }
func lastingClassOf(n int) int { return coarseOnes + stepsTo(n, fine) }

// stepsTo is the number of sizes below the smallest that holds n bytes, with `each` sizes to each power of two.
func stepsTo(n, each int) int {
	if n <= smallest {
		return 0
	}
	power := bits.Len(uint(n-1)) - 1 // 2^power < n <= 2^(power+1), or n = 2^power+1 and more
	step := 1 << power / each
	return (power-8)*each + (n-1<<power+step-1)/step // 1 to each
}

// classBytes is the size of a class's pieces.
func classBytes(c int) int {
	each := coarse
	if c >= coarseOnes {
		c, each = c-coarseOnes, fine
	}
	return smallest / each * (each + c%each) << (c / each)
}

func (p *Pool) poison(t *Tensor) {
	b := make([]byte, t.Len()*t.dtype.Size())
	for i := range b {
		b[i] = 0xff
	}
	p.backend.Upload(t.Span(), b)
}

// Scope frees, at its end, the tensors that were made in it and are still alive.
type Scope struct {
	pool *Pool
	own  []*Tensor
}

// Scope begins one. End it with defer.
func (p *Pool) Scope() *Scope { return &Scope{pool: p} }

// New is a tensor that lives to the scope's end.
func (s *Scope) New(d kernels.DType, shape ...int) *Tensor { return s.Own(s.pool.New(d, shape...)) }

// Own hands a tensor to the scope.
func (s *Scope) Own(t *Tensor) *Tensor {
	s.own = append(s.own, t)
	return t
}

// Keep takes a tensor out of the scope: it is the caller's to free.
func (s *Scope) Keep(t *Tensor) *Tensor {
	for i, o := range s.own {
		if o == t {
			s.own = append(s.own[:i], s.own[i+1:]...)
			break
		}
	}
	return t
}

// End frees the scope's tensors. The scope may be used again.
func (s *Scope) End() {
	for _, t := range s.own {
		if t.Alive() {
			t.Free()
		}
	}
	clear(s.own)
	s.own = s.own[:0]
}
