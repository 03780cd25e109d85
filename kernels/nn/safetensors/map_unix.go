//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package safetensors

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapped is a whole file in memory; nil once closed.
type mapped struct{ data []byte }

// openSource maps f and closes it. Some network file systems cannot be mapped,
// and some files not on a 32-bit machine: then f is read instead.
func openSource(f *os.File, size int64) source {
	if int64(int(size)) != size {
		return readAt{f}
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return readAt{f}
	}
	f.Close()
	return &mapped{data}
}

func (m *mapped) span(off, n int64) ([]byte, error) {
	if m.data == nil {
		return nil, os.ErrClosed
	}
	return m.data[off : off+n : off+n], nil
}

// drop gives back the pages that lie wholly in the span; the mapping starts at a page.
func (m *mapped) drop(off, n int64) {
	page := int64(os.Getpagesize())
	from, to := (off+page-1)/page*page, (off+n)/page*page
	if m.data != nil && from < to {
		_ = unix.Madvise(m.data[from:to], unix.MADV_DONTNEED) // only a hint
	}
}

func (m *mapped) close() error {
	if m.data == nil {
		return os.ErrClosed
	}
	data := m.data
	m.data = nil
	return unix.Munmap(data)
}
