package ref

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Backend runs every operation by its definition, on one goroutine.
type Backend struct{}

var _ kernels.Backend = Backend{}

// Name is "ref".
func (Backend) Name() string { return "ref" }

// Alloc returns fresh host memory, aligned to 64 bytes.
func (Backend) Alloc(n int) *kernels.Buffer {
	b := make([]byte, n+63)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & 63)
	return &kernels.Buffer{Host: b[skip : skip+n : skip+n], Bytes: n}
}

// Free does nothing: the collector frees buffers.
func (Backend) Free(*kernels.Buffer) {}

// Upload copies bytes into a span.
func (Backend) Upload(dst kernels.Span, src []byte) {
	if b := dst.Raw(); copy(b, src) != len(b) {
		panic("ref: Upload: fewer bytes than the span holds")
	}
}

// Download copies a span's bytes out.
func (Backend) Download(dst []byte, src kernels.Span) {
	if b := src.Raw(); copy(dst, b) != len(b) {
		panic("ref: Download: the span holds more bytes than asked for")
	}
}

// Sync does nothing: calls return when they are done.
func (Backend) Sync() {}
