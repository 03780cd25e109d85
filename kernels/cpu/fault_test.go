//go:build linux

package cpu

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFault: a mapped file that was cut while it is read is a panic of the caller, whichever worker
// reads it, and not the end of the process.
func TestFault(t *testing.T) {
	debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(false)
	path, size := filepath.Join(t.TempDir(), "weights"), 64*os.Getpagesize()
	if err := os.WriteFile(path, make([]byte, size), 0o644); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	data, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(data)
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	p := newPool(4)
	defer p.close()
	for range 20 {
		func() {
			defer func() {
				if f, ok := recover().(interface{ Addr() uintptr }); !ok {
					t.Error("nobody was told")
				} else if f.Addr() == 0 {
					t.Error("it has no address")
				}
			}()
			sums := make([]int, 64)
			p.run(64, func(i int) {
				for _, b := range data[i*os.Getpagesize() : (i+1)*os.Getpagesize()] {
					sums[i] += int(b)
				}
			})
		}()
	}
}
