//go:build !nocuda && linux && (amd64 || arm64)

package cuda_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/nccl"
)

// TestNCCLAlone: the real library's binding, on the one device that there is.
func TestNCCLAlone(t *testing.T) {
	if r := cuda.Probe(); r.Missing != "" {
		t.Skip("no device: " + r.Missing)
	}
	b, err := cuda.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	over, err := nccl.Alone(20*time.Second, b)
	if err != nil {
		t.Skip("no NCCL: " + err.Error())
	}
	t.Log(over)
	const n = 1 << 20
	from, into := kernels.Span{Buf: b.Alloc(4 * n), Len: n, DType: kernels.F32}, kernels.Span{Buf: b.Alloc(4 * n), Len: n, DType: kernels.F32}
	want, got := make([]float32, n), make([]float32, n)
	for i := range want {
		want[i] = float32(i)
	}
	b.Upload(from, raw(want))
	for range 3 {
		if err := errors.Join(over.Gather([]kernels.Span{from}, []kernels.Span{into}), over.Wait()); err != nil {
			t.Fatal(err)
		}
	}
	if b.Download(raw(got), into); !slices.Equal(got, want) {
		t.Error("other bytes came")
	}
	if err := over.Close(); err != nil {
		t.Error(err)
	}
}
