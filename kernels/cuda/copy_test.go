//go:build !nocuda && linux && (amd64 || arm64)

package cuda_test

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/double"
)

// copier makes and copies matrices of bytes.
type copier struct {
	*testing.T
	b *cuda.Backend
}

func (c copier) bytes(n int, value byte) kernels.Span {
	s := kernels.Span{Buf: c.b.Alloc(n), Len: n, DType: kernels.U8}
	c.b.Upload(s, bytes.Repeat([]byte{value}, n))
	return s
}

func (c copier) copy(dst, src kernels.Span, rows, cols, to, from int) {
	c.b.Copy(&kernels.Copy{Src: src, Dst: dst, Shape: [5]int{1, 1, 1, rows, cols}, SrcStride: [5]int{0, 0, 0, from, 1}, DstStride: [5]int{0, 0, 0, to, 1}})
}

func (c copier) read(s kernels.Span) []byte {
	out := make([]byte, s.Len)
	c.b.Download(out, s)
	return out
}

// Copies that follow one another are one launch where none touches what another writes, and keep their order where
// one does.
func TestCopiesTogether(t *testing.T) {
	control := double.New(t)
	control.Set(13000, 1, 80, 64<<20)
	b, err := cuda.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	c := copier{t, b}
	launches := func(f func()) int {
		b.Sync()
		before := b.Traffic().Launches
		f()
		b.Sync()
		return b.Traffic().Launches - before
	}
	x, y, joined, last := c.bytes(3*16, 1), c.bytes(3*32, 2), c.bytes(3*48, 3), c.bytes(3*48, 4)
	if n := launches(func() { // rows of x beside rows of y: places that lie between each other
		c.copy(joined, x, 3, 16, 48, 16)
		c.copy(joined.Slice(16, joined.Len), y, 3, 32, 48, 32)
	}); n != 1 {
		t.Errorf("two parts of a matrix: %d launches", n)
	}
	if n := launches(func() { c.copy(last, joined, 3, 48, 48, 48); c.copy(x, last, 1, 48, 48, 48) }); n != 2 {
		t.Errorf("a copy of a copy: %d launches", n)
	}
	row := append(bytes.Repeat([]byte{1}, 16), bytes.Repeat([]byte{2}, 32)...)
	for _, s := range []kernels.Span{joined, last, x} {
		if got := c.read(s); !bytes.Equal(got, bytes.Repeat(row, 3)[:s.Len]) {
			t.Errorf("copied: %v", got)
		}
	}
	for name, overlap := range map[string][2]int{"written twice": {0, 47}, "its last byte, of the next row": {40, 9}} {
		if n := launches(func() {
			c.copy(joined, x, 2, 16, 48, 16)
			c.copy(joined.Slice(overlap[0], joined.Len), y, 2, overlap[1], 48, 32)
		}); n != 2 {
			t.Errorf("%s: %d launches", name, n)
		}
	}
	if n := launches(func() {
		for i := range 9 {
			c.copy(y.Slice(i, y.Len), x.Slice(i, x.Len), 1, 1, 1, 1)
		}
	}); n != 2 {
		t.Errorf("nine copies: %d launches", n)
	}
	// What waits starts before memory that it reads goes back to the driver.
	large := c.bytes(32<<20, 5)
	c.copy(last, large, 1, 48, 48, 48)
	b.Free(large.Buf)
	before := b.Traffic().Launches
	b.Alloc(40 << 20) // there is no room beside the first
	if n := b.Traffic().Launches - before; n != 1 || c.read(last)[0] != 5 {
		t.Errorf("memory went back: %d launches", n)
	}
}

// An array beside the operands that is that of the launch before is not copied again, and one that differs is.
func TestSmallArrays(t *testing.T) {
	double.New(t)
	b, err := cuda.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	x := kernels.Span{Buf: b.Alloc(24), Len: 6, DType: kernels.F32}
	out := kernels.Span{Buf: b.Alloc(8), Len: 2, DType: kernels.F32}
	b.Fill(x, 1)
	sum := func(uploads int, segments ...int) {
		t.Helper()
		before := b.Traffic()
		b.SumRows(&kernels.SumRows{X: kernels.NewMat(x, 3, 2), Segments: segments, Out: out})
		if n := b.Traffic().Since(before).Uploads; n != uploads {
			t.Errorf("segments %v: %d uploads, want %d", segments, n, uploads)
		}
		got := make([]byte, 8)
		if b.Download(got, out); !bytes.Equal(got, []byte{0, 0, 64, 64, 0, 0, 64, 64}) { // 3, 3
			t.Errorf("segments %v: %v", segments, got)
		}
	}
	sum(1, 1, 2)
	sum(0, 1, 2)
	sum(1, 2, 1)
	sum(1, 1, 2)
}

// A box that began to wait while another rank's operation waited for the backend starts before that operation, which
// may write memory that the box is read from.
func TestCopiesOfTwoRanks(t *testing.T) {
	double.New(t).Set(13000, 1, 80, 64<<20)
	b, err := cuda.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	c := copier{t, b}
	x, y := c.bytes(16, 1), c.bytes(16, 2)
	b.Sync()
	waiting := -1
	var other sync.WaitGroup
	b.Locked(func() {
		other.Go(func() { b.Must(func() { waiting = b.CopiesWaiting() }) })
		time.Sleep(50 * time.Millisecond) // until it waits
		b.LetWait(y, x)
	})
	other.Wait()
	if waiting != 0 {
		t.Errorf("%d copies still wait when the operation starts", waiting)
	}
	if got := c.read(y); got[0] != 1 {
		t.Errorf("copied: %v", got)
	}
}

// Two goroutines that copy beside each other never let more boxes wait than a kernel takes.
func TestCopiesAtOnce(t *testing.T) {
	double.New(t).Set(13000, 1, 80, 64<<20)
	b, err := cuda.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	c := copier{t, b}
	var both sync.WaitGroup
	for part := range 2 {
		x, y := c.bytes(512, byte(part+1)), c.bytes(512, 0)
		both.Go(func() {
			for i := range 2000 {
				at := i % 512
				c.copy(y.Slice(at, at+1), x.Slice(at, at+1), 1, 1, 1, 1)
			}
		})
		defer func() {
			if got := c.read(y); got[511] != byte(part+1) {
				t.Errorf("copied: %d", got[511])
			}
		}()
	}
	both.Wait()
}
