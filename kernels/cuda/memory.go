package cuda

import "errors"

// Device memory is asked of the driver in classes and kept: a piece that comes back serves the
// next of its class at once, since work on one stream is done in order. When the driver has no
// more, what waits is given back to it and the request is tried again.

// memory lends pieces of device memory.
type memory struct {
	d       *driver
	stream  uintptr
	waiting map[int][]uintptr // by bytes
	sizes   map[uintptr]int   // what is lent
	held    int               // bytes taken from the driver
}

func newMemory(d *driver, stream uintptr) *memory {
	return &memory{d: d, stream: stream, waiting: map[int][]uintptr{}, sizes: map[uintptr]int{}}
}

// class is n rounded up: to 512 bytes, and above 1 MiB to a sixteenth of its power of two.
func class(n int) int {
	step := 512
	for n > step<<11 {
		step <<= 1
	}
	return (max(n, 1) + step - 1) / step * step
}

func (m *memory) take(n int) (uintptr, error) {
	size := class(n)
	if w := m.waiting[size]; len(w) > 0 {
		p := w[len(w)-1]
		m.waiting[size] = w[:len(w)-1]
		m.sizes[p] = size
		return p, nil
	}
	p, err := m.d.alloc(size)
	if failed := new(callError); errors.As(err, &failed) && failed.Code == codeOutOfMemory && len(m.waiting) > 0 {
		if err = m.trim(); err == nil {
			p, err = m.d.alloc(size)
		}
	}
	if err != nil {
		return 0, err
	}
	m.sizes[p] = size
	m.held += size
	return p, nil
}

// give takes a piece back; one that was not lent is passed over.
func (m *memory) give(p uintptr) {
	if size, ok := m.sizes[p]; ok {
		delete(m.sizes, p)
		m.waiting[size] = append(m.waiting[size], p)
	}
}

// trim gives what waits back to the driver.
func (m *memory) trim() error {
	if err := m.d.wait(m.stream); err != nil {
		return err
	}
	for size, w := range m.waiting {
		for _, p := range w {
			if err := m.d.free(p); err != nil {
				return err
			}
			m.held -= size
		}
		delete(m.waiting, size)
	}
	return nil
}

// close gives everything back, the lent pieces too.
func (m *memory) close() error {
	for p := range m.sizes {
		m.give(p)
	}
	return m.trim()
}
