//go:build !nocuda && linux && (amd64 || arm64)

package cuda_test

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/double"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest"
)

// openMode is a device of the double.
func openMode(t *testing.T, index int, mode string) *cuda.Backend {
	t.Helper()
	b, err := cuda.OpenAs(index, mode)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// TestOffload: weights in pinned memory, on another device and on their own give the bits of weights that are kept, and
// every copy is waited for, whether devices reach each other or not.
func TestOffload(t *testing.T) {
	c := double.New(t)
	for _, x := range []struct {
		name, mode string
		capability int
		peer       int // -1: host memory
		apart      bool
	}{
		{"host", "exact", 80, -1, false},
		{"host, tensor cores", "own", 80, -1, false},
		{"host, wgmma", "own", 90, -1, false},
		{"peer", "exact", 80, 1, false},
		{"peer through the host", "exact", 80, 1, true},
		{"own memory", "exact", 80, 0, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			c.Set(12040, 2, x.capability, 1<<30)
			if x.apart {
				c.Apart()
			}
			b := openMode(t, 0, x.mode)
			home := kernels.Home{}
			switch x.peer {
			case 0:
				home.Peer = b
			case 1:
				home.Peer = openMode(t, 1, x.mode)
			}
			kerneltest.RunOffloader(t, b, home)
			for d := range double.TooMany + 1 {
				if n := c.Disorders(d); n > 0 {
					t.Errorf("disorder %d, %d times", d, n)
				}
			}
			if n := b.Pinned(); n > 0 {
				t.Errorf("%d bytes stay pinned", n)
			}
		})
	}
}

// stored is a few weights in host memory, and room for some of them.
func stored(t *testing.T, b *cuda.Backend, weights, room int) (all []*kernels.Stored, x kernels.Mat) {
	t.Helper()
	const n = 64
	buf := b.Alloc(4 * n * n)
	x = kernels.NewMat(kernels.Span{Buf: buf, Len: n * n, DType: kernels.F32}, n, n)
	b.Fill(x.Span, 1)
	for range weights {
		s, err := b.Store(b.Pack(x, kernels.MathF32), kernels.Home{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	b.Reserve(room * 4 * n * n)
	return all, x
}

// multiply queues a product that reads a weight.
func multiply(b *cuda.Backend, x kernels.Mat, w *kernels.Packed) {
	c := x
	c.Span.Buf = b.Alloc(4 * x.Len)
	b.Gemm(&kernels.Gemm{Layout: kernels.NT, Math: kernels.MathF32, A: x, W: w, C: c})
}

// TestDisorders: the double refuses and counts each fault of a ring.
func TestDisorders(t *testing.T) {
	c := double.New(t)
	for name, x := range map[string]struct {
		is double.Disorder
		do func(b *cuda.Backend, all []*kernels.Stored, x kernels.Mat)
	}{
		"a product does not wait for the copy": {double.Unawaited, func(b *cuda.Backend, all []*kernels.Stored, x kernels.Mat) {
			multiply(b, x, b.Fetch(all[0]))
		}},
		"a slot is filled that a queued product reads": {double.StillRead, func(b *cuda.Backend, all []*kernels.Stored, x kernels.Mat) {
			w := b.Fetch(all[0])
			b.Await(w)
			b.Release(w)
			multiply(b, x, w)
			b.Fetch(all[1])
			b.Fetch(all[2])
		}},
		"a weight is copied back": {double.CopiedBack, func(b *cuda.Backend, all []*kernels.Stored, x kernels.Mat) {
			w := b.Fetch(all[0])
			b.Await(w)
			b.Download(make([]byte, 4*x.Len), kernels.Span{Buf: w.Buf, Len: x.Len, DType: kernels.F32})
		}},
		"more weights than the ring's": {double.TooMany, func(b *cuda.Backend, all []*kernels.Stored, x kernels.Mat) {
			b.Reserve(3 * 4 * x.Len)
			for _, s := range all {
				b.Fetch(s)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c.Set(12040, 1, 80, 1<<30)
			c.Resident(0)
			b, err := cuda.OpenAs(0, "exact")
			if err != nil {
				t.Fatal(err)
			}
			all, m := stored(t, b, 3, 2)
			c.Resident(2 * 4 * m.Len)
			err = func() (err error) {
				defer kernels.Recover(&err)
				x.do(b, all, m)
				return nil
			}()
			if err == nil || !strings.Contains(err.Error(), "ILLEGAL_ADDRESS") || c.Disorders(x.is) != 1 {
				t.Errorf("%v; counted %d times", err, c.Disorders(x.is))
			}
			b.Close()
			double.New(t) // whose devices are whole
		})
	}
}

// TestRingIsBounded: a pass over more weights than the ring holds never has more on the device, brings each once, and
// waits for none; a weight that lies in the ring is not brought again.
func TestRingIsBounded(t *testing.T) {
	c := double.New(t)
	b := openMode(t, 0, "exact")
	all, x := stored(t, b, 8, 3)
	c.Resident(3 * 4 * x.Len)
	before := b.Traffic()
	for i := range 2 * len(all) {
		s := all[min(i, 2*len(all)-1-i)] // to the last, and back
		w := b.Fetch(s)
		b.Await(w)
		multiply(b, x, w)
		b.Release(w)
	}
	done := b.Traffic().Since(before)
	if want := 8 + 5; done.Uploads != want || done.UploadBytes != int64(want*4*x.Len) {
		t.Errorf("%d copies of %d bytes; want %d, since three weights lie there at the turn", done.Uploads, done.UploadBytes, want)
	}
	if done.Waits != 0 || done.Downloads != 0 {
		t.Errorf("%d waits and %d copies back", done.Waits, done.Downloads)
	}
	if b.Sync(); c.Peak() != 3*4*x.Len {
		t.Errorf("%d bytes of weights were on the device; the ring has %d", c.Peak(), 3*4*x.Len)
	}
	// A ring that is full says so.
	for i := range 3 {
		if b.Fetch(all[i]) == nil {
			t.Fatalf("no room for weight %d of 3", i)
		}
	}
	if b.Fetch(all[3]) != nil {
		t.Error("a fourth weight in a ring of three")
	}
}

// TestPinnedMemoryIsOut: a host without room for a piece is asked for smaller ones; one that has no more, and a limit,
// are an error that says how much there is. The weight stays.
func TestPinnedMemoryIsOut(t *testing.T) {
	c := double.New(t)
	b := openMode(t, 0, "exact")
	filled := float32(0)
	pack := func(n int) *kernels.Packed {
		buf := b.Alloc(n)
		defer b.Free(buf)
		x := kernels.Span{Buf: buf, Len: n / 4, DType: kernels.F32}
		filled++
		b.Fill(x, filled)
		b.Fill(x.Slice(n/8, n/4), -filled)
		return b.Pack(kernels.NewMat(x, 1, n/4), kernels.MathF32)
	}
	c.Host(12 << 20)
	w := pack(9 << 20)
	s, err := b.Store(w, kernels.Home{}) // in a piece of 12 MiB
	if err != nil {
		t.Fatal(err)
	}
	if s2, err := b.Store(pack(2<<20), kernels.Home{}); err != nil || b.Pinned() != 12<<20 {
		t.Errorf("%v, %d bytes are pinned", err, b.Pinned())
	} else {
		defer b.Discard(s2)
	}
	w = pack(3 << 20)
	if _, err = b.Store(w, kernels.Home{}); err == nil || !strings.Contains(err.Error(), "0.01 GiB of weights are in pinned host memory") || !strings.Contains(err.Error(), "hint:") {
		t.Errorf("%v", err)
	}
	if w.Buf.Addr == 0 || errors.As(err, new(*cuda.Error)) {
		t.Errorf("the weight is gone with the error %v", err)
	}
	c.Host(1 << 30)
	b.LimitPinned(14 << 20)
	if _, err = b.Store(w, kernels.Home{}); err == nil || !strings.Contains(err.Error(), "are the limit") {
		t.Errorf("%v", err)
	}
	b.LimitPinned(0)
	s3, err := b.Store(w, kernels.Home{})
	if err != nil {
		t.Fatal(err)
	}
	if len(s3.Host) != 2 || b.Pinned() != 24<<20 {
		t.Errorf("%d parts, %d bytes are pinned; want the room that was left in the first piece to be used, and as much again", len(s3.Host), b.Pinned())
	}
	b.Reserve(3 << 20)
	f := b.Fetch(s3)
	b.Await(f)
	const n = 3 << 18
	there, here := kernels.Span{Buf: b.Alloc(4 * n), Len: n, DType: kernels.F32}, make([]byte, 4*n)
	whole := [5]int{1, 1, 1, 1, n}
	b.Copy(&kernels.Copy{Src: kernels.Span{Buf: f.Buf, Len: n, DType: kernels.F32}, Dst: there, Shape: whole, SrcStride: [5]int{4: 1}, DstStride: [5]int{4: 1}})
	b.Download(here, there)
	for i, end := range []float32{3, 3, -3, -3} {
		at := 4 * []int{0, n/2 - 1, n / 2, n - 1}[i]
		if got := math.Float32frombits(binary.LittleEndian.Uint32(here[at:])); got != end {
			t.Errorf("number %d of the weight is %g, want %g", at/4, got, end)
		}
	}
	b.Discard(s3)
	b.Discard(s)
}
