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
