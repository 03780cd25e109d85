//go:build !nocuda && linux && (amd64 || arm64)

package cuda_test

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/cuda/double"
)

// raw are numbers' bytes.
func raw(x []float32) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x)) }

// TestKernelTimes: each launch is counted under its kernel's name, more of them than wait to be read at once, and the
// results are those without times.
func TestKernelTimes(t *testing.T) {
	c := double.New(t)
	c.Set(13000, 1, 120, 1<<30)
	const n, launches = 1000, 2500
	results := map[string][]float32{}
	for _, mode := range []string{"own,times", "own"} {
		b, err := cuda.OpenAs(0, mode)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		s := kernels.Span{Buf: b.Alloc(4 * n), Len: n, DType: kernels.F32}
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(i)
		}
		b.Upload(s, raw(values))
		before := b.Traffic().Launches
		for range launches {
			b.Axpby(&kernels.Axpby{A: 1.0001, X: s, Y: s})
		}
		b.Download(raw(values), s)
		results[mode] = values
		all, err := b.KernelTimes()
		if err != nil {
			t.Fatal(err)
		}
		if mode == "own" {
			if len(all) != 0 {
				t.Errorf("times that nobody asked for: %v", all)
			}
			continue
		}
		if len(all) != 1 || all[0].Launches != b.Traffic().Launches-before || all[0].Launches < launches || all[0].Time <= 0 {
			t.Errorf("%v of %d launches", all, b.Traffic().Launches-before)
		}
		var text strings.Builder
		b.WriteKernelTimes(&text)
		if !strings.Contains(text.String(), "kernels took") || !strings.Contains(text.String(), all[0].Kernel) {
			t.Errorf("%s", &text)
		}
	}
	for i := range results["own"] {
		if results["own"][i] != results["own,times"][i] {
			t.Fatalf("number %d is %g with times, and %g without", i, results["own,times"][i], results["own"][i])
		}
	}
}
