package cuda

import "github.com/darkroom-rl/darkroom/kernels"

// Memory of the device, and copies to and from it.

// Alloc takes device memory.
func (b *Backend) Alloc(n int) *kernels.Buffer {
	buf := &kernels.Buffer{Bytes: n}
	b.now("Alloc", func() (err error) {
		buf.Addr, err = b.memory.Take(n)
		return err
	})
	return buf
}

// Free gives a buffer back; what is queued may still read it.
func (b *Backend) Free(buf *kernels.Buffer) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.memory.Give(buf.Addr)
	buf.Addr = 0
}

// Upload copies bytes into a span; src may be changed when it returns.
func (b *Backend) Upload(dst kernels.Span, src []byte) {
	n := dst.Len * dst.DType.Size()
	if len(src) < n {
		panic("cuda: Upload: fewer bytes than the span holds")
	}
	b.must("Upload", func() error { return b.staging.Upload(at(dst), src[:n]) })
}

// Download copies a span's bytes out, when everything before it is done.
func (b *Backend) Download(dst []byte, src kernels.Span) {
	n := src.Len * src.DType.Size()
	if len(dst) < n {
		panic("cuda: Download: the span holds more bytes than asked for")
	}
	b.must("Download", func() error { return b.staging.Download(dst[:n], at(src)) })
}

// Sync waits for everything that was queued.
func (b *Backend) Sync() {
	b.must("Sync", func() error { return b.d.Wait(b.stream) })
}

// Stream is the device's stream, on which everything is queued.
func (b *Backend) Stream() uintptr {
	b.must("Copy", func() error { return nil })
	return b.stream
}

// Idle reports whether everything that was queued is done, without waiting for it.
func (b *Backend) Idle() (done bool, err error) {
	defer kernels.Recover(&err)
	b.must("Wait", func() (err error) {
		done, err = b.d.Idle(b.stream)
		return err
	})
	return done, nil
}
