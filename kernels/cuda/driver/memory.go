package driver

import (
	"cmp"
	"errors"
	"math/bits"
	"slices"
)

// Device memory is asked of the driver in chunks. A piece is cut from the smallest free block that holds it, and joined
// with the free blocks on both sides when it comes back: so pieces of any sizes follow one another in the same memory.
// A pass of FLUX over one, two and then four pictures holds 3 % more than its tensors are at most; pieces that only
// serve others of their size would be 75 % more. Small pieces are asked for one by one, in classes, and kept.
//
// A piece that comes back is lent again at once, since work on one stream is done in order. Where the driver has no
// more, free memory goes back to it and the request is tried again.
//
// Invariant (tests): lent pieces never overlap, and a chunk whose pieces came back is one block.

// Sizes of chunks: an eighth of the memory held, so that a small program takes little, and at most a gibibyte.
const (
	smallPiece = 1 << 20 // below it there are classes
	leastChunk = 2 << 20
	mostChunk  = 1 << 30
	chunkStep  = 2 << 20 // the driver rounds to it
	pieceStep  = 512
)

// Memory lends pieces of device memory.
type Memory struct {
	d       *Driver
	stream  uintptr
	before  func() error      // queues work that is held back
	waiting map[int][]uintptr // small pieces, by bytes
	sizes   map[uintptr]int   // of lent pieces
	alone   map[uintptr]bool  // of it, pieces outside of chunks
	chunks  map[uintptr]int   // bytes of each
	free    []block           // by size, then by address
	starts  map[uintptr]int   // bytes of free blocks, by where they start
	ends    map[uintptr]int   // and by where they end
	held    int               // bytes taken from the driver
}

// block is free memory inside a chunk.
type block struct {
	at    uintptr
	bytes int
}

func (b block) compare(o block) int {
	return cmp.Or(cmp.Compare(b.bytes, o.bytes), cmp.Compare(b.at, o.at))
}

// NewMemory is that of a context, lent to one stream; before is called when pieces are about to go back to the driver,
// so that work held back can be queued.
func NewMemory(d *Driver, stream uintptr, before func() error) *Memory {
	return &Memory{d: d, stream: stream, before: before, waiting: map[int][]uintptr{}, sizes: map[uintptr]int{}, alone: map[uintptr]bool{},
		chunks: map[uintptr]int{}, starts: map[uintptr]int{}, ends: map[uintptr]int{}}
}

// Held is how many bytes were taken from the driver, those included that wait to be lent again.
func (m *Memory) Held() int { return m.held }

// rounded is the size of a piece for n bytes: below smallPiece a class, four to each power of two, above whole steps.
func rounded(n int) int {
	n = max(n, 1)
	step := pieceStep
	if n < smallPiece {
		step = max(step, 1<<bits.Len(uint(n-1))>>3)
	}
	return (n + step - 1) / step * step
}

// Find lends a piece of n bytes at least if one is free, without a call of the driver.
func (m *Memory) Find(n int) (p uintptr, ok bool) {
	size := rounded(n)
	if size < smallPiece {
		w := m.waiting[size]
		if len(w) == 0 {
			return 0, false
		}
		p, m.waiting[size] = w[len(w)-1], w[:len(w)-1]
		m.sizes[p] = size
		return p, true
	}
	i, _ := slices.BinarySearchFunc(m.free, block{bytes: size}, block.compare)
	if i == len(m.free) {
		return 0, false
	}
	b := m.free[i]
	m.drop(b)
	if b.bytes > size {
		m.add(block{b.at + uintptr(size), b.bytes - size})
	}
	m.sizes[b.at] = size
	return b.at, true
}

// Take lends a piece of n bytes at least.
func (m *Memory) Take(n int) (uintptr, error) {
	if p, ok := m.Find(n); ok {
		return p, nil
	}
	size := rounded(n)
	if size < smallPiece {
		p, err := m.ask(size)
		if err == nil {
			m.sizes[p] = size
		}
		return p, err
	}
	if err := m.more(size); err != nil {
		return 0, err
	}
	p, _ := m.Find(n)
	return p, nil
}

// TakeAlone lends a piece outside of chunks, which goes back to the driver with Drop.
func (m *Memory) TakeAlone(n int) (uintptr, error) {
	p, err := m.ask(n)
	if err == nil {
		m.sizes[p], m.alone[p] = n, true
	}
	return p, err
}

// Drop gives such a piece back to the driver, which waits for all work that was queued.
func (m *Memory) Drop(p uintptr) error {
	m.held -= m.sizes[p]
	delete(m.sizes, p)
	delete(m.alone, p)
	return m.d.Free(p)
}

// more takes a chunk that holds a piece: one of the usual size, or one of the piece's where the driver has too little.
func (m *Memory) more(size int) error {
	least := (size + chunkStep - 1) / chunkStep * chunkStep
	usual := min(max(m.held/8, leastChunk), mostChunk) / chunkStep * chunkStep
	if usual > least {
		if p, err := m.d.Alloc(usual); err == nil {
			m.begin(p, usual)
			return nil
		} else if Code(err) != OutOfMemory {
			return err
		}
	}
	p, err := m.ask(least)
	if err == nil {
		m.held -= least // begin counts it
		m.begin(p, least)
	}
	return err
}

func (m *Memory) begin(p uintptr, size int) {
	m.chunks[p] = size
	m.held += size
	m.add(block{p, size})
}

// ask takes memory of the driver; where that has no more, free memory goes back to it first.
func (m *Memory) ask(size int) (uintptr, error) {
	p, err := m.d.Alloc(size)
	if failed := new(CallError); errors.As(err, &failed) && failed.Code == OutOfMemory {
		before := m.held
		if err := m.trim(); err != nil {
			return 0, err
		}
		if m.held < before {
			p, err = m.d.Alloc(size)
		}
	}
	if err == nil {
		m.held += size
	}
	return p, err
}

// Give takes a piece back; one that was not lent is passed over.
func (m *Memory) Give(p uintptr) {
	size, ok := m.sizes[p]
	if !ok {
		return
	}
	delete(m.sizes, p)
	if size < smallPiece {
		m.waiting[size] = append(m.waiting[size], p)
		return
	}
	b := block{p, size}
	if n, ok := m.ends[b.at]; ok && m.chunks[b.at] == 0 {
		left := block{b.at - uintptr(n), n}
		m.drop(left)
		b = block{left.at, n + b.bytes}
	}
	if end := b.at + uintptr(b.bytes); m.chunks[end] == 0 {
		if n, ok := m.starts[end]; ok {
			m.drop(block{end, n})
			b.bytes += n
		}
	}
	m.add(b)
}

func (m *Memory) add(b block) {
	i, _ := slices.BinarySearchFunc(m.free, b, block.compare)
	m.free = slices.Insert(m.free, i, b)
	m.starts[b.at], m.ends[b.at+uintptr(b.bytes)] = b.bytes, b.bytes
}

func (m *Memory) drop(b block) {
	i, _ := slices.BinarySearchFunc(m.free, b, block.compare)
	m.free = slices.Delete(m.free, i, i+1)
	delete(m.starts, b.at)
	delete(m.ends, b.at+uintptr(b.bytes))
}

// trim gives back to the driver small pieces that wait, and chunks of which nothing is lent.
func (m *Memory) trim() error {
	if err := cmp.Or(m.before(), m.d.Wait(m.stream)); err != nil {
		return err
	}
	for size, w := range m.waiting {
		for _, p := range w {
			if err := m.d.Free(p); err != nil {
				return err
			}
			m.held -= size
		}
		delete(m.waiting, size)
	}
	for p, size := range m.chunks {
		if m.starts[p] != size {
			continue
		}
		m.drop(block{p, size})
		delete(m.chunks, p)
		m.held -= size
		if err := m.d.Free(p); err != nil {
			return err
		}
	}
	return nil
}

// Close gives everything back, the lent pieces too.
func (m *Memory) Close() (err error) {
	for p := range m.alone {
		err = cmp.Or(err, m.Drop(p))
	}
	for p := range m.sizes {
		m.Give(p)
	}
	return cmp.Or(err, m.trim())
}

// Copies go through pinned host memory, so that an upload returns when its bytes have been taken,
// not when they have arrived. Two halves take turns: one fills while the other's copies run, and
// an event says when a half may be written again.

// stagingHalf is the size of each half, and of the buffer that downloads go through.
const stagingHalf = 4 << 20

// Staging copies to and from a device.
type Staging struct {
	d      *Driver
	stream uintptr
	half   [2][]byte
	event  [2]uintptr
	busy   [2]bool // copies were queued since the last wait
	turn   int
	used   int
	down   []byte
}

// NewStaging takes pinned memory for copies on a stream. What it returns beside an error is closed, too.
func NewStaging(d *Driver, stream uintptr) (*Staging, error) {
	s := &Staging{d: d, stream: stream}
	var err error
	for i := range s.half {
		if s.half[i], err = d.Pinned(stagingHalf); err != nil {
			return s, err
		}
		if s.event[i], err = d.Event(); err != nil {
			return s, err
		}
	}
	s.down, err = d.Pinned(stagingHalf)
	return s, err
}

// room is n bytes, at most stagingHalf, that no copy reads any more.
func (s *Staging) room(n int) ([]byte, error) {
	if s.used+n > stagingHalf {
		if err := s.d.Record(s.event[s.turn], s.stream); err != nil {
			return nil, err
		}
		s.busy[s.turn] = true
		s.turn, s.used = 1-s.turn, 0
		if s.busy[s.turn] {
			s.busy[s.turn] = false
			if err := s.d.WaitEvent(s.event[s.turn]); err != nil {
				return nil, err
			}
		}
	}
	b := s.half[s.turn][s.used : s.used+n]
	s.used += n
	return b, nil
}

// Upload takes the bytes, and queues their copy.
func (s *Staging) Upload(dst uintptr, src []byte) error {
	for len(src) > 0 {
		n := min(len(src), stagingHalf)
		b, err := s.room(n)
		if err != nil {
			return err
		}
		copy(b, src[:n])
		if err := s.d.ToDevice(dst, b, s.stream); err != nil {
			return err
		}
		dst, src = dst+uintptr(n), src[n:]
	}
	return nil
}

// Download waits for everything that was queued before it.
func (s *Staging) Download(dst []byte, src uintptr) error {
	for len(dst) > 0 {
		n := min(len(dst), stagingHalf)
		if err := s.d.ToHost(s.down[:n], src, s.stream); err != nil {
			return err
		}
		if err := s.d.Wait(s.stream); err != nil {
			return err
		}
		copy(dst[:n], s.down)
		dst, src = dst[n:], src+uintptr(n)
	}
	return nil
}

// Close ends the events and gives the host memory back; no copy may be under way.
func (s *Staging) Close() (err error) {
	for i := range s.half {
		if s.event[i] != 0 {
			err = cmp.Or(err, s.d.EndEvent(s.event[i]))
		}
		if s.half[i] != nil {
			err = cmp.Or(err, s.d.Unpin(s.half[i]))
		}
	}
	if s.down != nil {
		err = cmp.Or(err, s.d.Unpin(s.down))
	}
	return err
}
