//go:build !nocuda && linux && (amd64 || arm64)

package nccl_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/double"
	"github.com/darkroom-rl/darkroom/kernels/cuda/nccl"
	"github.com/darkroom-rl/darkroom/kernels/exchange"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest"
)

// several opens so many devices of the double.
func several(t *testing.T, c *double.Control, n int) []*cuda.Backend {
	t.Helper()
	c.Set(13000, n, 120, 1<<30) // PTX alone, so one load
	var all []*cuda.Backend
	for i := range n {
		b, err := cuda.OpenAs(i, os.Getenv(cuda.ModeVariable))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		all = append(all, b)
	}
	return all
}

// TestAlone: one device gathers its own bytes.
func TestAlone(t *testing.T) {
	c := double.New(t)
	c.NCCL(22105)
	b := several(t, c, 1)[0]
	over, err := nccl.Alone(0, b)
	if err != nil {
		t.Fatal(err)
	}
	from, into := kernels.Span{Buf: b.Alloc(4000), Len: 1000, DType: kernels.F32}, kernels.Span{Buf: b.Alloc(4000), Len: 1000, DType: kernels.F32}
	want, got := make([]float32, 1000), make([]float32, 1000)
	for i := range want {
		want[i] = float32(i)
	}
	b.Upload(from, bytesOf(want))
	if err := errors.Join(over.Gather([]kernels.Span{from}, []kernels.Span{into}), over.Wait()); err != nil {
		t.Fatal(err)
	}
	if b.Download(bytesOf(got), into); !slices.Equal(got, want) {
		t.Error("other bytes came")
	}
	if err := over.Close(); err != nil {
		t.Error(err)
	}
}

// TestNCCL: gradients of several devices are added up with the bits of kerneltest.Sum, over NCCL as
// through host memory, with the same kernels queued before and after.
func TestNCCL(t *testing.T) {
	c := double.New(t)
	c.NCCL(22105)
	const ranks = 3
	r := rand.New(rand.NewPCG(1, 2))
	all := several(t, c, ranks)
	var backends []kernels.Backend
	parts := make([][]float32, ranks)
	for k, b := range all {
		backends = append(backends, b)
		for range 1000 {
			parts[k] = append(parts[k], float32(math.Ldexp(r.NormFloat64(), r.IntN(8))))
		}
	}
	want := kerneltest.Sum(parts)
	over, err := nccl.Join(0, all...)
	if err != nil {
		t.Fatal(err)
	}
	if s := "3 ranks, over NCCL 2.21.5"; over.String() != s {
		t.Errorf("%s, want %s", over, s)
	}
	for _, wire := range []exchange.Wire{over, &exchange.Host{Ranks: backends}} {
		for _, piece := range []int{0, 300} {
			spans := make([][]kernels.Span, ranks)
			for k, b := range all {
				s := kernels.Span{Buf: b.Alloc(4000), Len: 1000, DType: kernels.F32}
				b.Upload(s, bytesOf(parts[k]))
				b.Axpby(&kernels.Axpby{A: 2, X: s, Y: s}) // nothing waits for it
				spans[k] = []kernels.Span{s}
			}
			if err := (&exchange.Sum{Ranks: backends, Wire: wire, Piece: piece}).Add(spans); err != nil {
				t.Fatal(err)
			}
			for k, b := range all {
				s := spans[k][0]
				b.Axpby(&kernels.Axpby{A: 0.5, X: s, Y: s})
				got := make([]float32, 1000)
				b.Download(bytesOf(got), s)
				if !slices.Equal(got, want) {
					t.Errorf("%s, pieces of %d: rank %d has another sum", wire, piece, k)
				}
				b.Free(s.Buf)
			}
		}
	}
	if err := over.Close(); err != nil {
		t.Error(err)
	}
	for _, b := range all {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := c.Used(); n != 0 {
		t.Errorf("%d bytes of device memory are left behind", n)
	}
}

func bytesOf(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x))
}

// TestNCCLSays: what is missing or failed is said with the call that failed and what to do.
func TestNCCLSays(t *testing.T) {
	c := double.New(t)
	all := several(t, c, 2)
	says := func(what string, err error, words ...string) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: no error", what)
			return
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v; want %q in it", what, err, w)
			}
		}
	}
	t.Setenv(nccl.LibraryVariable, "off")
	_, err := nccl.Join(0, all...)
	says("turned off", err, "no NCCL", "off")
	c.NCCL(2804)
	_, err = nccl.Join(0, all[0])
	says("one", err, "there is one")
	_, err = nccl.Join(0, all[0], all[1], all[0])
	says("twice", err, "cuda:0 is there twice")
	c.Fail("ncclCommInitAll", 1, 2)
	_, err = nccl.Join(0, all...)
	says("joining", err, "joining 2 devices", "ncclCommInitAll", "(2)", "NCCL_DEBUG=WARN", nccl.LibraryVariable)
	n, err := nccl.Join(0, all...)
	if err != nil {
		t.Fatal(err)
	}
	if n.Version() != "2.8.4" {
		t.Errorf("version %s", n.Version())
	}
	piece := func(b *cuda.Backend, n int) kernels.Span {
		return kernels.Span{Buf: b.Alloc(4 * n), Len: n, DType: kernels.F32}
	}
	from := []kernels.Span{piece(all[0], 8), piece(all[1], 8)}
	into := []kernels.Span{piece(all[0], 16), piece(all[1], 16)}
	for i, call := range []string{"ncclGroupStart", "ncclAllGather", "ncclGroupEnd"} {
		c.Fail(call, 1, 1+i)
		says(call, n.Gather(from, into), call, fmt.Sprintf("(%d)", 1+i))
		says("after "+call, n.Gather(from, into), "nothing is gathered any more", call)
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if n, err = nccl.Join(0, all...); err != nil {
			t.Fatal(err)
		}
	}
	c.Fail("ncclCommGetAsyncError", 2, 6)
	says("late", n.Gather(from, into), "rank 1 (cuda:1)", "(6)", "another rank is lost")
	if n, err = nccl.Join(0, all...); err != nil {
		t.Fatal(err)
	}
	says("rooms", n.Gather(from, from), "rank 0 has room for 8")
	if err := n.Gather([]kernels.Span{from[1], from[0]}, into); err == nil {
		t.Error("gathered from memory of another device")
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}

// soon fails a test that hangs: nothing here takes longer.
func soon(t *testing.T, what string, f func() error) (err error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err = <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: it hangs", what)
	}
	return err
}

// TestNCCLFails: wherever a device is lost in a sum, or does not come, the sum ends with its name, nobody
// waits for it, and what is left can be closed.
func TestNCCLFails(t *testing.T) {
	c := double.New(t)
	const ranks, pieces = 3, 70 // more than are queued at a time
	for name, x := range map[string]struct {
		limit time.Duration
		fault func()
		says  string
	}{
		"before a gathering":    {0, func() { c.Lose(1, "", 0, 719) }, "rank 1 (cuda:1)"},
		"in the first addition": {0, func() { c.Lose(1, "cuLaunchKernel", 1, 700) }, "rank 1 (cuda:1): cuda:1: Binary: cuLaunchKernel: CUDA_ERROR_ILLEGAL_ADDRESS (700)"},
		"in a later one":        {0, func() { c.Lose(1, "cuLaunchKernel", 9, 719) }, "rank 1 (cuda:1): cuda:1: Binary"},
		"while it is waited":    {0, func() { c.Lose(1, "cuStreamQuery", 1, 719) }, "rank 1 (cuda:1): cuda:1: Wait: cuStreamQuery"},
		"at the last wait":      {0, func() { c.Lose(1, "cuStreamQuery", 3, 719) }, "rank 1 (cuda:1): cuda:1: Wait: cuStreamQuery"},
		"without memory":        {0, func() { c.Set(13000, ranks, 120, c.Used()+100) }, "Alloc"},
		"its call fails":        {0, func() { c.Fail("ncclAllGather", 2, 5) }, "rank 1 (cuda:1): ncclAllGather: invalid usage (5)"},
		"it does not come":      {200 * time.Millisecond, func() { c.Absent(1) }, "rank 0 (cuda:0): what all ranks gather has not come within 200ms"},
		"NCCL hangs":            {200 * time.Millisecond, c.Stuck, "gathering: NCCL has not come back within 200ms"},
	} {
		t.Run(name, func(t *testing.T) {
			c := double.New(t)
			c.NCCL(22105)
			all := several(t, c, ranks)
			over, err := nccl.Join(x.limit, all...)
			if err != nil {
				t.Fatal(err)
			}
			var backends []kernels.Backend
			spans := make([][]kernels.Span, ranks)
			for k, b := range all {
				backends = append(backends, b)
				for range pieces {
					s := kernels.Span{Buf: b.Alloc(64), Len: 16, DType: kernels.F32}
					b.Upload(s, make([]byte, 64))
					spans[k] = append(spans[k], s)
				}
			}
			x.fault()
			err = soon(t, "the sum", func() error { return (&exchange.Sum{Ranks: backends, Wire: over}).Add(spans) })
			if err == nil || !strings.Contains(err.Error(), x.says) {
				t.Errorf("%v; want %q in it", err, x.says)
			}
			if err := over.Gather([]kernels.Span{spans[0][0], spans[1][0], spans[2][0]}, nil); err == nil || !strings.Contains(err.Error(), "nothing is gathered any more") {
				t.Errorf("afterwards: %v", err)
			}
			err = soon(t, "the end", func() error {
				err := over.Close()
				for r, b := range all {
					lost := b.Close()
					if r != 1 && err == nil {
						err = lost
					}
				}
				return err
			})
			if err != nil {
				t.Errorf("closing: %v", err)
			}
		})
	}
}
