package gemm

import (
	"math/rand/v2"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
)

// TestRowsStandAlone computes a row alone and among others: its bits are the same.
func TestRowsStandAlone(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const n, k = 70, 300
	for _, e := range engines(t) {
		for _, m := range []kernels.Math{kernels.MathF32, kernels.MathBF16} {
			a, b := matrix(r, kernels.F32, 64, k, 1, true), matrix(r, kernels.BF16, n, k, 0, true)
			w := e.packed(b, m)
			all := matrix(r, kernels.F32, 64, n, 0, false)
			e.Gemm(&kernels.Gemm{Math: m, A: a, W: w, C: all}, threaded)
			for _, rows := range []int{1, 7, 8, 63} {
				first := r.IntN(64 - rows + 1)
				c := matrix(r, kernels.F32, rows, n, 0, false)
				e.Gemm(&kernels.Gemm{Math: m, A: a.RowRange(first, first+rows), B: b, C: c}, serial)
				want := clone(c)
				copy(want.Raw(), all.RowRange(first, first+rows).Raw())
				if err := same(c, want); err != nil {
					t.Errorf("%s %s: rows %d to %d of 64 alone: %v", unitOf(e), m, first, first+rows-1, err)
				}
			}
		}
	}
}

// TestWeightGradientOfMicroBatches adds the samples of a batch in one call, and in
// calls of one or three: the bits are the same.
func TestWeightGradientOfMicroBatches(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	lengths := []int{5, 40, 0, 32, 33, 1, 64, 7}
	total := 0
	for _, l := range lengths {
		total += l
	}
	for _, e := range engines(t) {
		for _, m := range []kernels.Math{kernels.MathF32, kernels.MathBF16} {
			dy, x := matrix(r, kernels.BF16, total, 20, 0, false), matrix(r, kernels.F32, total, 37, 2, false)
			start := matrix(r, kernels.F32, 20, 37, 0, false)
			var want kernels.Mat
			for _, each := range []int{8, 3, 1} {
				dw := clone(start)
				row := 0
				for i := 0; i < len(lengths); i += each {
					part := lengths[i:min(i+each, len(lengths))]
					rows := 0
					for _, l := range part {
						rows += l
					}
					e.Gemm(&kernels.Gemm{Layout: kernels.TN, Math: m, A: dy.RowRange(row, row+rows), B: x.RowRange(row, row+rows),
						C: dw, Segments: part, Accumulate: true}, serial)
					row += rows
				}
				if each == 8 {
					want = dw
				} else if err := same(dw, want); err != nil {
					t.Errorf("%s %s: micro-batches of %d: %v", unitOf(e), m, each, err)
				}
			}
		}
	}
}

// TestSteadyState counts allocations of a product whose scratch exists.
func TestSteadyState(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, e := range engines(t) {
		if len(e.units) == 0 || e.threads > 1 {
			continue // ref's loops allocate
		}
		for _, m := range []kernels.Math{kernels.MathF32, kernels.MathBF16} {
			a, b, c := matrix(r, kernels.F32, 300, 500, 0, false), matrix(r, kernels.BF16, 500, 100, 0, false), matrix(r, kernels.F32, 300, 100, 0, false)
			g := &kernels.Gemm{Layout: kernels.NN, Math: m, A: a, B: b, C: c}
			if n := testing.AllocsPerRun(5, func() { e.Gemm(g, serial) }); n > 4 {
				t.Errorf("%s %s: %.0f allocations a product, want the headers of a call only", unitOf(e), m, n)
			}
		}
	}
}

// TestBackwardScratch: the scratch memory of a convolution's backward is predicted within a quarter.
func TestBackwardScratch(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, p := range paths(t) {
		for _, c := range []struct {
			m          kernels.Math
			in, out    int
			side, step int
			dx, dw     bool
		}{
			{kernels.MathF32, 64, 64, 16, 1, true, false}, {kernels.MathBF16, 64, 96, 8, 1, true, false},
			{kernels.MathF32, 128, 128, 8, 1, true, false}, {kernels.MathF32, 64, 64, 16, 1, false, true},
			{kernels.MathBF16, 64, 64, 16, 2, true, true}, {kernels.MathF32, 4, 64, 16, 2, true, true},
		} {
			e := New(p, 1)
			if _, fast := e.convs[c.m]; !fast {
				continue // plain Go holds nothing
			}
			s := kernels.ConvShape{In: c.in, Out: c.out, KH: 3, KW: 3, Stride: c.step, Top: 1, Left: 1, Bottom: 1, Right: 1}
			oh, ow := s.OutSize(c.side, c.side)
			span := func(n int) kernels.Span { return matrix(r, kernels.F32, 1, n, 0, false).Span }
			a := &kernels.ConvBackward{Conv: kernels.Conv{Math: c.m, N: 1, H: c.side, W: c.side, Shape: s, X: span(c.side * c.side * c.in), Weight: span(9 * c.in * c.out)}, DY: span(oh * ow * c.out)}
			if c.dx {
				a.DX = span(a.X.Len)
			}
			if c.dw {
				a.DWeight = span(a.Weight.Len)
			}
			said := e.BackwardScratch(a)
			e.ConvBackward(a, serial)
			held := 0
			for _, s := range e.stages.free {
				held += len(s.memory)
			}
			if float64(held) > 1.25*float64(said) || float64(held) < 0.5*float64(said) {
				t.Errorf("%s %+v: %d bytes are predicted, and %d held", unitOf(e), c, said, held)
			}
		}
	}
}
