package cpu

import (
	"testing"
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
)

func TestAllocAlignsAndFreeEnds(t *testing.T) {
	b := NewWith(Options{Threads: 1})
	defer b.Close()
	for _, n := range []int{0, 1, 100, 1 << 20, 3<<20 + 5} {
		buf := b.Alloc(n)
		if buf.Bytes != n || len(buf.Host) != n {
			t.Fatalf("asked for %d bytes, got %d", n, buf.Bytes)
		}
		if at := uintptr(unsafe.Pointer(unsafe.SliceData(buf.Host))); at%64 != 0 {
			t.Errorf("a buffer of %d bytes starts at %#x", n, at)
		}
		if n == 0 {
			continue
		}
		s := kernels.Span{Buf: buf, Len: n, DType: kernels.U8}
		s.Raw()[n-1] = 7
		b.Free(buf)
		func() {
			defer func() { _ = recover() }()
			s.Raw()[n-1] = 7
			t.Errorf("a freed buffer of %d bytes can be written", n)
		}()
	}
}
