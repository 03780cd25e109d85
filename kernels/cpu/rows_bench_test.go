package cpu

import (
	"math/rand/v2"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
)

// Gradients and fills, which the command's bench leaves out: bytes are those that an
// operation must read and write once.

func benchSpan(b *Backend, d kernels.DType, n int) kernels.Span {
	s := kernels.Span{Buf: b.Alloc(n * d.Size()), Len: n, DType: d}
	wide := kernels.Span{Buf: b.Alloc(4 * n), Len: n, DType: kernels.F32}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		wide.F32()[i] = r.Float32()*4 - 2
	}
	b.Unary(&kernels.Unary{Op: kernels.Identity, X: wide, Y: s})
	return s
}

// benchRows runs an operation that touches operands of n elements for 1 and 2 threads.
func benchRows(t *testing.B, n, operands int, prepare func(b *Backend, d kernels.DType) func()) {
	path, err := isa.Choose()
	if err != nil {
		t.Skip(err)
	}
	for _, d := range []kernels.DType{kernels.F32, kernels.BF16} {
		for _, threads := range []int{1, 2} {
			b := NewWith(Options{Path: path, Threads: threads})
			t.Run(d.String()+"/"+b.String(), func(t *testing.B) {
				run := prepare(b, d)
				t.SetBytes(int64(n * operands * d.Size()))
				for t.Loop() {
					run()
				}
			})
			b.Close()
		}
	}
}

func BenchmarkGroupNorm(t *testing.B) {
	for _, act := range []kernels.UnaryOp{kernels.Identity, kernels.SiLU} {
		t.Run(act.String(), func(t *testing.B) {
			benchRows(t, 128*128*512, 2, func(b *Backend, d kernels.DType) func() {
				a := benchGroupNorm(b, d, act)
				return func() { b.GroupNorm(&a) }
			})
		})
	}
}

func BenchmarkGroupNormBackward(t *testing.B) {
	for _, act := range []kernels.UnaryOp{kernels.Identity, kernels.SiLU} {
		t.Run(act.String(), func(t *testing.B) {
			benchRows(t, 128*128*512, 3, func(b *Backend, d kernels.DType) func() {
				a := kernels.GroupNormBackward{GroupNorm: benchGroupNorm(b, d, act)}
				b.GroupNorm(&a.GroupNorm)
				a.DY, a.DX = benchSpan(b, d, a.X.Len), benchSpan(b, d, a.X.Len)
				a.DWeight, a.DBias = benchSpan(b, kernels.F32, a.C), benchSpan(b, kernels.F32, a.C)
				return func() { b.GroupNormBackward(&a) }
			})
		})
	}
}

func benchGroupNorm(b *Backend, d kernels.DType, act kernels.UnaryOp) kernels.GroupNorm {
	n := 128 * 128 * 512
	return kernels.GroupNorm{X: benchSpan(b, d, n), Y: benchSpan(b, d, n), N: 1, HW: 128 * 128, C: 512, Groups: 32, Eps: 1e-5, Act: act,
		Weight: benchSpan(b, kernels.F32, 512), Bias: benchSpan(b, kernels.F32, 512), Mean: benchSpan(b, kernels.F32, 32), Rstd: benchSpan(b, kernels.F32, 32)}
}

func BenchmarkNormBackward(t *testing.B) {
	const rows, cols = 974, 1536
	benchRows(t, rows*cols, 3, func(b *Backend, d kernels.DType) func() {
		mat := func() kernels.Mat { return kernels.NewMat(benchSpan(b, d, rows*cols), rows, cols) }
		row := func() kernels.Span { return benchSpan(b, kernels.F32, cols) }
		a := kernels.NormBackward{Norm: kernels.Norm{Kind: kernels.LayerNorm, X: mat(), Y: mat(), Eps: 1e-5, Weight: row(), Bias: row(),
			Mean: benchSpan(b, kernels.F32, rows), Rstd: benchSpan(b, kernels.F32, rows)}, DY: mat(), DX: mat(), DWeight: row(), DBias: row()}
		b.Norm(&a.Norm)
		return func() { b.NormBackward(&a) }
	})
}

func BenchmarkFill(t *testing.B) {
	const n = 1 << 24
	benchRows(t, n, 1, func(b *Backend, d kernels.DType) func() {
		s := benchSpan(b, d, n)
		return func() { b.Fill(s, 1) }
	})
}
