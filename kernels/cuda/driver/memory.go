package driver

import (
	"cmp"
	"errors"
	"math/bits"
)

// Device memory is asked of the driver in classes and kept: a piece that comes back serves the
// next of its class at once, since work on one stream is done in order. When the driver has no
// more, what waits is given back to it and the request is tried again.

// Memory lends pieces of device memory.
type Memory struct {
	d       *Driver
	stream  uintptr
	before  func() error      // queues what is held back
	waiting map[int][]uintptr // by bytes
	sizes   map[uintptr]int   // what is lent
	held    int               // bytes taken from the driver
}

// NewMemory is that of a context, lent to one stream; before is called when pieces are about to go back to the driver,
// so that what was held back can be queued.
func NewMemory(d *Driver, stream uintptr, before func() error) *Memory {
	return &Memory{d: d, stream: stream, before: before, waiting: map[int][]uintptr{}, sizes: map[uintptr]int{}}
}

// Held is how many bytes were taken from the driver, those included that wait to be lent again.
func (m *Memory) Held() int { return m.held }

// class is n rounded up: to 512 bytes, and above 1 MiB to a sixteenth of the power of two below it.
func class(n int) int {
	step := 512
	if n > 1<<20 {
		step = 1 << (bits.Len(uint(n-1)) - 1 - 4)
	}
	return (max(n, 1) + step - 1) / step * step
}

// Take lends a piece of n bytes at least.
func (m *Memory) Take(n int) (uintptr, error) {
	size := class(n)
	if w := m.waiting[size]; len(w) > 0 {
		p := w[len(w)-1]
		m.waiting[size] = w[:len(w)-1]
		m.sizes[p] = size
		return p, nil
	}
	p, err := m.d.Alloc(size)
	if failed := new(CallError); errors.As(err, &failed) && failed.Code == OutOfMemory && len(m.waiting) > 0 {
		if err = m.trim(); err == nil {
			p, err = m.d.Alloc(size)
		}
	}
	if err != nil {
		return 0, err
	}
	m.sizes[p] = size
	m.held += size
	return p, nil
}

// Give takes a piece back; one that was not lent is passed over.
func (m *Memory) Give(p uintptr) {
	if size, ok := m.sizes[p]; ok {
		delete(m.sizes, p)
		m.waiting[size] = append(m.waiting[size], p)
	}
}

// trim gives what waits back to the driver.
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
	return nil
}

// Close gives everything back, the lent pieces too.
func (m *Memory) Close() error {
	for p := range m.sizes {
		m.Give(p)
	}
	return m.trim()
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
