//go:build linux || darwin

package cpu

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/darkroom-rl/darkroom/kernels"
)

// mapped is the size from which a buffer is mapped from the system instead of
// taken from Go's heap: weights of many gigabytes then do not count in the
// collector's pacing, and Free gives their pages back at once.
const mapped = 1 << 20

// Alloc returns host memory, aligned to 64 bytes.
func (b *Backend) Alloc(n int) *kernels.Buffer {
	if n < mapped {
		return b.Backend.Alloc(n)
	}
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		panic(fmt.Errorf("cpu: no memory for a buffer of %d bytes: %w", n, err))
	}
	adviseHugePages(mem)
	return &kernels.Buffer{Host: mem, Bytes: n}
}

// Free gives a buffer back. A later use of it panics.
func (b *Backend) Free(buf *kernels.Buffer) {
	if buf.Bytes >= mapped && buf.Host != nil {
		if err := unix.Munmap(buf.Host); err != nil {
			panic(fmt.Errorf("cpu: freeing a buffer: %w", err))
		}
	}
	buf.Host = nil
}
