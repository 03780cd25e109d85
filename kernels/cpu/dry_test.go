package cpu

import (
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
)

// TestOperations: two a multiply-add, whatever the layout; a pair's are added, and each gradient of a convolution costs
// as much as the convolution.
func TestOperations(t *testing.T) {
	path, err := isa.Choose()
	if err != nil {
		t.Fatal(err)
	}
	mat := func(rows, cols int) kernels.Mat { return kernels.Mat{Rows: rows, Cols: cols} }
	full := kernels.Span{Len: 1}
	shape := kernels.ConvShape{In: 3, Out: 5, KH: 2, KW: 2, Stride: 1}
	heads := kernels.Attention{Q: kernels.Heads{B: 2, S: 4, H: 3, D: 8}, K: kernels.Heads{B: 2, S: 10, H: 3, D: 8}}
	seen := heads
	seen.Causal, seen.K.S = true, 4
	for what, c := range map[string]struct {
		do   func(d *Dry)
		want float64
	}{
		"a product":        {func(d *Dry) { d.Gemm(&kernels.Gemm{A: mat(4, 7), B: mat(6, 7), C: mat(4, 6)}) }, 2 * 4 * 7 * 6},
		"a turned product": {func(d *Dry) { d.Gemm(&kernels.Gemm{Layout: kernels.TN, A: mat(7, 4), B: mat(7, 6), C: mat(4, 6)}) }, 2 * 4 * 7 * 6},
		"a convolution":    {func(d *Dry) { d.Conv(&kernels.Conv{Shape: shape, N: 2, H: 5, W: 4}) }, 2 * 2 * 4 * 3 * 5 * 12},
		"a convolution's gradient": {func(d *Dry) {
			d.ConvBackward(&kernels.ConvBackward{Conv: kernels.Conv{Shape: shape, N: 2, H: 5, W: 4}, DX: full})
		}, 2 * 2 * 4 * 3 * 5 * 12},
		"a convolution's gradients": {func(d *Dry) {
			d.ConvBackward(&kernels.ConvBackward{Conv: kernels.Conv{Shape: shape, N: 2, H: 5, W: 4}, DX: full, DWeight: full})
		}, 2 * 2 * 2 * 4 * 3 * 5 * 12},
		"attention":                     {func(d *Dry) { d.Attention(&heads) }, 2 * 2 * 2 * 3 * 8 * 4 * 10},
		"attention of what came before": {func(d *Dry) { d.Attention(&seen) }, 2 * 2 * 2 * 3 * 8 * 10},
		"attention's backward":          {func(d *Dry) { d.AttentionBackward(&kernels.AttentionBackward{Attention: heads}) }, 5 * 2 * 2 * 3 * 8 * 4 * 10},
	} {
		d := NewDry(Options{Path: path, Threads: 1})
		if c.do(d); d.Operations() != c.want {
			t.Errorf("%s: %v operations, want %v", what, d.Operations(), c.want)
		}
	}
}
