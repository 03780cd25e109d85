//go:build !nocuda && linux && (amd64 || arm64)

package cuda_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
)

// TestTrialTimes times kernels that are asked for by name on a device, and the default's beside them: gradients of
// weights and products by each tile, those of a decoding 7B, attention's backward. peer.py gradients times the same
// products in PyTorch, by CUDA graphs.
func TestTrialTimes(t *testing.T) {
	if *times == "" {
		t.Skip("-times 1 times kernels on trial on a device")
	}
	b, err := cuda.OpenAs(0, "own,trial")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	t.Log(b)
	room := func(n int, d kernels.DType) kernels.Span {
		s := kernels.Span{Buf: b.Alloc(n * d.Size()), Len: n, DType: d}
		b.Normal(&kernels.Normal{Key: 0x5eed, Stream: uint64(n), Y: s})
		return s
	}
	// Copies within the second keep the device busy while launches queue.
	left, right, to := room(8192*16384, kernels.BF16), room(300<<20, kernels.BF16), room(64<<20, kernels.F32)
	timed := func(flops float64, run func(i int)) string {
		n := min(60, max(3, int(1.2e-3/(flops/4e14+4e-6))))
		ahead := func() {
			for range 6 {
				b.Copy(wide(right))
			}
		}
		run(0)
		best := math.Inf(1)
		for range 3 {
			best = min(best, b.Timed(ahead, n, run))
		}
		return fmt.Sprintf("%.1f us %.0f TF/s", best, flops/best/1e6)
	}
	processors := b.Device().Processors
	gradient := func(m, n, k, samples int) {
		flops, line := 2*float64(m)*float64(n)*float64(k), ""
		segments := make([]int, samples)
		for i := range segments {
			segments[i] = k / samples
		}
		run := func(int) {
			b.Gemm(&kernels.Gemm{Layout: kernels.TN, Math: kernels.MathBF16, A: kernels.NewMat(left.Slice(0, k*m), k, m),
				B: kernels.NewMat(right.Slice(0, k*n), k, n), C: kernels.NewMat(to.Slice(0, m*n), m, n), Segments: segments, Accumulate: true})
		}
		line += ", chosen " + timed(flops, run)
		if m*n*k < 1<<34 {
			b.UseGradients(false)
			line += ", by mma.sync " + timed(flops, run)
			b.UseGradients(true)
		}
		for _, name := range cuda.GradientTiles() {
			b.SetHopper(name, 65, processors)
			line += ", " + name + " " + timed(flops, run)
		}
		b.SetHopper("", 65, processors)
		t.Logf("gradient [%d,%d,%d] of %d samples%s", k, m, n, samples, line)
	}
	for _, s := range [][4]int{{1024, 1024, 1024, 1}, {1536, 1536, 974, 1}, {6144, 1536, 974, 1}, {1536, 6144, 974, 1}, {512, 128, 4608, 1},
		{3072, 3072, 4608, 1}, {12288, 3072, 4608, 1}, {3072, 12288, 4608, 1}, {3072, 3072, 5074, 2}, {1536, 1536, 4096, 4}} {
		gradient(s[0], s[1], s[2], s[3])
	}
	product := func(layout kernels.Layout, m, n, k int, warm bool, tiles []string) {
		flops, line := 2*float64(m)*float64(n)*float64(k), ""
		places := 1
		if !warm {
			places = max(1, (128<<20)/(2*n*k))
		}
		run := func(i int) {
			w := right.Slice(i%places*n*k, (i%places+1)*n*k)
			g := &kernels.Gemm{Layout: layout, Math: kernels.MathBF16, A: kernels.NewMat(left.Slice(0, m*k), m, k),
				B: kernels.NewMat(w, n, k), C: kernels.NewMat(kernels.Span{Buf: to.Buf, Len: m * n, DType: kernels.BF16}, m, n)}
			if layout == kernels.NN {
				g.B = kernels.NewMat(w, k, n)
			}
			b.Gemm(g)
		}
		b.UseTrial(false)
		line += ", chosen " + timed(flops, run)
		b.UseTrial(true)
		line += ", with those on trial " + timed(flops, run)
		for _, name := range tiles {
			if name == "_thin" && layout != kernels.NT {
				continue
			}
			b.SetHopper(name, 65, processors)
			line += ", " + name + " " + timed(flops, run)
		}
		b.SetHopper("", 65, processors)
		t.Logf("%v [%d,%d,%d] warm %t%s", layout, m, n, k, warm, line)
	}
	for _, warm := range []bool{true, false} {
		product(kernels.NT, 974, 1536, 6144, warm, []string{"_256", "_192", "_128", "_96", "_64"})
		product(kernels.NN, 974, 1536, 6144, warm, []string{"_256", "_192", "_128", "_96", "_64"})
		product(kernels.NT, 4352, 1536, 1536, warm, []string{"_256", "_192", "_128", "_96"})
		product(kernels.NT, 974, 1536, 1536, warm, []string{"_192", "_128", "_96", "_64"})
		product(kernels.NT, 974, 3072, 3072, warm, []string{"_192", "_128", "_96"})
	}
	for _, m := range []int{32, 128} {
		for _, s := range [][2]int{{3584, 3584}, {512, 3584}, {4608, 3584}, {18944, 3584}, {3584, 18944}, {152064, 3584}} {
			if s[0] < 100000 {
				product(kernels.NT, m, s[0], s[1], false, []string{"_192", "_128", "_96", "_64", "_few", "_thin"})
			}
		}
	}
	for _, x := range timedAttentions {
		if !x.backward || x.d > 64 {
			continue
		}
		for _, trial := range []bool{false, true} {
			b.UseTrial(trial)
			t.Logf("keys' pass of 96 queries %t", trial)
			timeAttention(t, b, x)
		}
	}
}
