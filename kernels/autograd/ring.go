package autograd

import (
	"slices"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/tensor"
)

// Frozen weights whose home is elsewhere: the host's memory, another device's, the disk, or codes of few bits.
//
// A product reads the packed form of a weight. A Ring holds those of the last block that products went through, and
// fetches as much ahead. It learns the order of reading: the longest stretch that was met before says the next weight,
// in either direction, since backward is forward reversed. The last block stays for the turn. A wrong guess costs time
// alone.
//
// Invariants (tests): outputs and gradients have the bits of a network that keeps its weights. No more is held than the
// block, as much fetched ahead, and the weight under way. Every pass of a network after its first finds each weight
// under way or there.

// A Source is a frozen weight in its home.
type Source interface {
	// Ahead begins to fetch the weight, and returns at once. It reports false where there is no room before others are
	// given back.
	Ahead() bool
	// Forget ends the fetch that Ahead began, where Take will not be called soon.
	Forget()
	// Take is the packed form. It waits for the fetch that Ahead began, or fetches. It is nil where there is no room
	// before others are given back, and panics with a kernels.DeviceError.
	Take() *kernels.Packed
	// Give hands the packed form back.
	Give(*kernels.Packed)
	// Bytes is about the size of the packed form.
	Bytes() int
	// Close frees the home itself.
	Close()
}

// NewStreamed returns a frozen weight that a ring holds while products read it.
func NewStreamed(name string, shape []int, conv kernels.ConvShape, pool *tensor.Pool, ring *Ring, source Source) *Param {
	ring.weights++
	return &Param{Name: name, Shape: shape, Conv: conv, pool: pool, ring: ring, source: source}
}

// A Ring holds the packed forms of some of a network's weights.
type Ring struct {
	// Tight holds the weight under way, and nothing is fetched ahead.
	Tight bool
	// Memory, where set, has the room in which weights are fetched. nil: weights have memory of their own.
	Memory Reserver

	room     int      // bytes of the largest block so far
	held     []*Param // the least recently read first
	ahead    []*Param // whose fetch is under way
	order    order
	weights  int // that may be held
	largest  int // bytes of one
	reserved int // bytes of Memory's room
}

// A Reserver is memory with room for weights: a kernels.Offloader.
type Reserver interface {
	// Reserve makes room of the given bytes in the place of former room, from which nothing is held; 0: none.
	Reserve(bytes int)
}

// reserve makes room for a block, as much ahead, and a weight.
func (r *Ring) reserve(bytes int) {
	if r.Memory == nil {
		return
	}
	r.largest = max(r.largest, bytes)
	room := r.room
	if r.Tight {
		room = 0
	}
	if need := 2*room + r.largest; need > r.reserved {
		r.Rest()
		r.reserved = 0
		r.Memory.Reserve(need)
		r.reserved = need
	}
}

// leave ends the use of the ring by a weight. The last one gives the room back.
func (r *Ring) leave() {
	if r.weights--; r.weights == 0 && r.reserved > 0 {
		r.Rest()
		r.Memory.Reserve(0)
		r.room, r.largest, r.reserved, r.order = 0, 0, 0, order{}
	}
}

// load puts the packed form of a weight into the ring.
func (r *Ring) load(p *Param) {
	r.reserve(p.source.Bytes())
	known := r.order.last() == p
	if !known {
		r.order.add(p)
	}
	if i := slices.Index(r.held, p); i >= 0 {
		r.held = append(slices.Delete(r.held, i, i+1), p)
	} else {
		r.take(p)
	}
	if !known && !r.Tight {
		r.fetch()
	}
}

// take makes room and brings a weight in.
func (r *Ring) take(p *Param) {
	if i := slices.Index(r.ahead, p); i >= 0 {
		r.ahead = slices.Delete(r.ahead, i, i+1)
	}
	most := r.room
	if r.Tight {
		most = 0
	}
	for len(r.held) > 0 && sizeOf(r.held)+p.source.Bytes() > most {
		r.drop(r.held[0])
	}
	w := p.source.Take()
	if w == nil { // the room is in pieces
		r.Rest()
		w = p.source.Take()
	}
	p.packed[w.Math] = w
	r.held = append(r.held, p)
}

// fetch asks for the next weights, and forgets others.
func (r *Ring) fetch() {
	var next []*Param
	left := r.room
	for p := range r.order.next() {
		if p.source == nil || slices.Contains(r.held, p) || slices.Contains(next, p) { // nil: its network was freed
			continue
		}
		if left -= p.source.Bytes(); left < 0 {
			break
		}
		next = append(next, p)
	}
	for _, p := range r.ahead {
		if !slices.Contains(next, p) {
			p.source.Forget()
		}
	}
	var begun []*Param
	full := false
	for _, p := range next {
		if full = full || !slices.Contains(r.ahead, p) && !p.source.Ahead(); full && !slices.Contains(r.ahead, p) {
			continue
		}
		begun = append(begun, p)
	}
	r.ahead = begun
}

// drop gives a weight's packed form back.
func (r *Ring) drop(p *Param) {
	if r == nil {
		return
	}
	if i := slices.Index(r.ahead, p); i >= 0 {
		r.ahead = slices.Delete(r.ahead, i, i+1)
		p.source.Forget()
	}
	i := slices.Index(r.held, p)
	if i < 0 {
		return
	}
	r.held = slices.Delete(r.held, i, i+1)
	for m, w := range p.packed {
		if w != nil {
			p.source.Give(w)
			p.packed[m] = nil
		}
	}
}

// Rest gives everything back that the ring holds, until products read again.
func (r *Ring) Rest() {
	for _, p := range slices.Concat(r.ahead, r.held) {
		r.drop(p)
	}
}

func sizeOf(all []*Param) (bytes int) {
	for _, p := range all {
		bytes += p.source.Bytes()
	}
	return bytes
}

// blockReads are the streamed weights that the outermost block under way has read.
type blockReads struct {
	depth int
	read  []*Param
}

func (b *blockReads) begin() {
	if b.depth == 0 {
		b.read = b.read[:0]
	}
	b.depth++
}

func (b *blockReads) add(p *Param) {
	if b.depth > 0 && !slices.Contains(b.read, p) {
		b.read = append(b.read, p)
	}
}

// end gives rings room for the block.
func (b *blockReads) end() {
	if b.depth--; b.depth > 0 {
		return
	}
	sums := map[*Ring]int{}
	for _, p := range b.read {
		sums[p.ring] += p.source.Bytes()
	}
	for r, bytes := range sums {
		r.room = max(r.room, bytes)
	}
}

// An order is the weights that products read, one after the other.
type order struct {
	read []*Param
	at   map[*Param][]int // places in read
}

// Lengths of an order: at how many it is cut, how far stretches are compared, and how far ahead is looked.
const (
	mostRead     = 1 << 14
	mostCompared = 96
	mostAhead    = 48
)

func (o *order) last() *Param {
	if len(o.read) == 0 {
		return nil
	}
	return o.read[len(o.read)-1]
}

func (o *order) add(p *Param) {
	if len(o.read) == mostRead {
		o.read, o.at = slices.Clone(o.read[mostRead/2:]), nil
	}
	if o.at == nil {
		o.at = map[*Param][]int{}
		for i, q := range o.read {
			o.at[q] = append(o.at[q], i)
		}
	}
	o.at[p] = append(o.at[p], len(o.read))
	o.read = append(o.read, p)
}

// next yields the weights that followed the last one where the longest stretch before it was the same, forward or
// backward.
func (o *order) next() func(yield func(*Param) bool) {
	end, best, place, by := len(o.read)-1, 0, 0, 0
	for _, i := range slices.Backward(o.at[o.last()]) {
		if best == mostCompared { // no stretch is longer
			break
		}
		if i == end {
			continue
		}
		for _, step := range []int{1, -1} {
			if n := o.alike(i, end, step); n > best && i+step >= 0 {
				best, place, by = n, i, step
			}
		}
	}
	return func(yield func(*Param) bool) {
		if best == 0 {
			return
		}
		for i, n := place+by, 0; i >= 0 && i < end && n < mostAhead; i, n = i+by, n+1 {
			if !yield(o.read[i]) {
				return
			}
		}
	}
}

// alike is how many weights before place i (behind it, where step is -1) are those before the end.
func (o *order) alike(i, end, step int) (n int) {
	for n < mostCompared && i >= 0 && i < end && end-n >= 0 && o.read[i] == o.read[end-n] {
		i, n = i-step, n+1
	}
	return n
}
