//go:build !nocuda && linux && (amd64 || arm64)

package cuda_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cuda"
	"github.com/darkroom-rl/darkroom/kernels/kerneltest"
)

// TestHopperGradients holds gradients of weights by wgmma on the double.
func TestHopperGradients(t *testing.T) {
	r, _ := newHopper(t)
	if !r.HopperGradients() {
		t.Fatal(r)
	}
	t.Run("near", func(t *testing.T) { testHopperGradientsNear(&rig{r.Backend, t, r.r}) })
	t.Run("bits", func(t *testing.T) { testHopperGradientBits(&rig{r.Backend, t, r.r}) })
}

// testHopperGradientsNear holds them, small ones as well, near to ref, with each tile in turn.
func testHopperGradientsNear(r *rig) {
	defer r.SetHopper("", 65, r.Device().Processors)
	tiles, i, before := cuda.GradientTiles(), 0, r.HopperProducts()
	kerneltest.RunNear(r.t, r.Backend, func(c kerneltest.Case) float64 {
		if c.Op != "Gemm" || !strings.Contains(c.Name, "/TN/bf16/") {
			return -1
		}
		r.SetHopper(tiles[i%len(tiles)], 1, 2)
		i++
		return kerneltest.TensorCores(c)
	})
	if n := r.HopperProducts() - before; n < 3*i/4 { // some are empty
		r.t.Errorf("%d of %d gradients went by wgmma", n, i)
	}
}

// testHopperGradientBits: a gradient's bits depend neither on the tile, nor on the number of samples of a product,
// nor on the number of blocks, nor on the places and types of operands. Samples without rows add nothing, and nothing
// beyond rows and columns is read.
func testHopperGradientBits(r *rig) {
	r.t.Helper()
	processors := r.Device().Processors
	defer r.SetHopper("", 65, processors)
	const n = 280 // ends inside tiles and boxes
	for i, segments := range [][]int{{70, 0, 64, 14, 1, 333}, {136}, nil, {1, 3, 2, 1, 1, 4, 9, 16, 15, 17, 33, 31, 5, 6, 7, 8, 64, 65}} {
		m := []int{200, 72}[i%2]
		k := 0
		for _, s := range segments {
			k += s
		}
		if segments == nil {
			k = 100
		}
		a, b := r.mat(kernels.BF16, k, m, m+8, 8), r.mat(kernels.BF16, k, n, n+16, 16)
		start := r.mat(kernels.F32, m, n, n, 0)
		product := func(a, b kernels.Mat, to kernels.Mat, segments []int) {
			r.Gemm(&kernels.Gemm{Layout: kernels.TN, Math: kernels.MathBF16, A: a, B: b, C: to, Segments: segments, Alpha: 0.375, Accumulate: true})
		}
		sums := func(stride int, f func(to kernels.Mat)) []byte {
			to := kernels.Mat{Span: r.zeros(kernels.F32, m*stride), Rows: m, Cols: n, Stride: stride}
			r.Axpby(&kernels.Axpby{X: start.Span, Y: to.Span.Slice(0, start.Span.Len), A: 1})
			f(to)
			return r.bytes(to.Span)
		}
		whole := func(a, b kernels.Mat) []byte {
			return sums(n, func(to kernels.Mat) { product(a, b, to, segments) })
		}
		want := whole(a, b)
		if err := finite(want); err != nil {
			r.t.Fatalf("samples of %v: %v", segments, err)
		}
		same := func(what string, got []byte) {
			r.t.Helper()
			if !bytes.Equal(got, want) {
				r.t.Errorf("samples of %v, %s: other bits", segments, what)
			}
		}
		apart := func() []byte {
			return sums(n, func(to kernels.Mat) {
				from := 0
				for _, s := range segments {
					product(a.RowRange(from, from+s), b.RowRange(from, from+s), to, []int{s})
					from += s
				}
			})
		}
		for j, tile := range cuda.GradientTiles() {
			r.SetHopper(tile, 65, 1+j%3)
			same("tiles "+tile, whole(a, b))
			if segments != nil {
				same("one after another with tiles "+tile, apart())
			}
		}
		r.SetHopper("", 65, processors)
		gathered := r.Gathered()
		whole(a, b)
		if r.Gathered() != gathered {
			r.t.Errorf("operands that a tensor map describes were gathered")
		}
		for _, d := range []kernels.DType{kernels.BF16, kernels.F32} {
			same(fmt.Sprintf("%s, left moved", d), whole(r.moved(a, d), b))
			same(fmt.Sprintf("%s, right moved", d), whole(a, r.moved(b, d)))
			r.SetMostGathered(1)
			same(fmt.Sprintf("%s, both moved, in pieces", d), whole(r.moved(a, d), r.moved(b, d)))
			r.SetMostGathered(256 << 20)
		}
		testHopperGradientResults(r, a, b, segments)
	}
}

// testHopperGradientResults: a result of either type, at any place, has the sums of one that is added to zeros.
func testHopperGradientResults(r *rig, a, b kernels.Mat, segments []int) {
	r.t.Helper()
	m, n := a.Cols, b.Cols
	run := func(d kernels.DType, stride int, accumulate bool, tile string) []byte {
		r.SetHopper(tile, 65, 2)
		to := kernels.Mat{Span: r.zeros(d, m*stride), Rows: m, Cols: n, Stride: stride}
		r.Gemm(&kernels.Gemm{Layout: kernels.TN, Math: kernels.MathBF16, A: a, B: b, C: to, Segments: segments, Accumulate: accumulate})
		raw, rows := r.bytes(to.Span), []byte(nil)
		for i := range m {
			rows = append(rows, raw[i*stride*d.Size():][:n*d.Size()]...)
		}
		return rows
	}
	want := run(kernels.F32, n, true, "")
	for i, tile := range cuda.GradientTiles() {
		if !bytes.Equal(run(kernels.F32, n+i%3, i%2 == 0, tile), want) {
			r.t.Errorf("samples of %v, tiles %s: other bits in rows of %d", segments, tile, n+i%3)
		}
		got := halves(run(kernels.BF16, n+i%3, false, tile))
		for j, v := range got {
			if full := float64(math.Float32frombits(binary.LittleEndian.Uint32(want[4*j:]))); v-full > 0.004*(1+full*full) || full-v > 0.004*(1+full*full) {
				r.t.Fatalf("samples of %v, tiles %s: element %d of bf16 is %g and not %g", segments, tile, j, v, full)
			}
		}
	}
}

// TestHopperGradientsOfARun: a run goes on with the kernels that computed its gradients.
func TestHopperGradientsOfARun(t *testing.T) {
	newHopper(t)
	record := func(mode string) ([]byte, *cuda.Backend) {
		b, err := cuda.OpenUnchecked(mode)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		r, _, err := b.Choices()
		if err != nil {
			t.Fatal(err)
		}
		return r, b
	}
	by, b := record("")
	if !bytes.Contains(by, []byte(`"gradients": "wgmma"`)) {
		t.Fatalf("the record is\n%s", by)
	}
	before := bytes.Replace(by, []byte(`"gradients": "wgmma"`), []byte(`"gradients": ""`), 1)
	if err := b.Choose(before); err != nil || b.HopperGradients() {
		t.Errorf("a run of before goes on by wgmma: %v", err)
	}
	_, without := record("mma")
	if err := without.Choose(by); err == nil {
		t.Error("a run begun by wgmma goes on by mma.sync")
	}
}
