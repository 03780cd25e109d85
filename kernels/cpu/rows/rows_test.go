package rows

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/cpu/isa"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// eachPath runs f on every path below the tiles that this CPU has.
func eachPath(t *testing.T, f func(t *testing.T, e *Engine)) {
	t.Logf("this CPU's paths: %s", isa.Paths())
	for _, p := range isa.Paths() {
		if p == isa.AMX {
			continue // its rows are those of BF16
		}
		t.Run(p.String(), func(t *testing.T) { f(t, New(p)) })
	}
}

// f32Span and bf16Span are operands in memory of Go's.
func f32Span(x []float32) kernels.Span {
	s := kernels.Span{Buf: ref.Backend{}.Alloc(4 * len(x)), Len: len(x), DType: kernels.F32}
	copy(s.F32(), x)
	return s
}

func bf16Span(x []float32) kernels.Span {
	s := kernels.Span{Buf: ref.Backend{}.Alloc(2 * len(x)), Len: len(x), DType: kernels.BF16}
	for i, v := range x {
		s.BF16()[i] = uint16(math.Float32bits(v) >> 16)
	}
	return s
}

// corners are all bf16 numbers, and fp32 around where functions turn.
func corners() []float32 {
	var x []float32
	for h := range 1 << 16 {
		x = append(x, ref.FromBF16(uint16(h)))
	}
	for _, turn := range []float32{0, 88.722839, -87.336544, 88, -88, 89, -103.97, 1.702, 0.6931472, 5.5, -5.5, 13, -13, 60, -60} {
		v := turn - 0.0005
		for range 800 {
			x = append(x, v, -v)
			v = math.Nextafter32(v, 200)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 30000 {
		x = append(x, float32(r.NormFloat64()*4))
	}
	return x
}

func same(t *testing.T, what string, got, want kernels.Span, x []float32) {
	t.Helper()
	for i := range want.Len {
		var g, w float32
		if want.DType == kernels.F32 {
			g, w = got.F32()[i], want.F32()[i]
		} else {
			g, w = ref.FromBF16(got.BF16()[i]), ref.FromBF16(want.BF16()[i])
		}
		if math.Float32bits(g) != math.Float32bits(w) && (g == g || w == w) {
			t.Fatalf("%s of %x is %x, want %x", what, x[i], g, w)
		}
	}
}

// TestFunctionsAtCorners compares every function and derivative with ref.
func TestFunctionsAtCorners(t *testing.T) {
	x := corners()
	one := make([]float32, len(x))
	for i := range one {
		one[i] = 1
	}
	for op := kernels.Identity; op <= kernels.Square; op++ {
		for _, span := range []func([]float32) kernels.Span{f32Span, bf16Span} {
			in, dy := span(x), span(one)
			act, grad := span(x), span(x)
			ref.Unary(&kernels.Unary{Op: op, X: in, Y: act}, 0, len(x))
			ref.UnaryBackward(&kernels.UnaryBackward{Op: op, X: in, DY: dy, DX: grad}, 0, len(x))
			eachPath(t, func(t *testing.T, e *Engine) {
				y, dx := span(one), span(one)
				e.Unary(&kernels.Unary{Op: op, X: in, Y: y}, 0, len(x))
				same(t, op.String(), y, act, x)
				e.UnaryBackward(&kernels.UnaryBackward{Op: op, X: in, DY: dy, DX: dx}, 0, len(x))
				same(t, "derivative of "+op.String(), dx, grad, x)
			})
		}
	}
}

// TestRounding compares casts of fp32 with ref, at every pattern of the lower half that
// matters.
func TestRounding(t *testing.T) {
	var x []float32
	for h := range 1 << 16 {
		for _, low := range []uint32{0, 1, 0x7fff, 0x8000, 0x8001, 0xffff} {
			x = append(x, math.Float32frombits(uint32(h)<<16|low))
		}
	}
	in := f32Span(x)
	want := bf16Span(x)
	ref.Unary(&kernels.Unary{X: in, Y: want}, 0, len(x))
	eachPath(t, func(t *testing.T, e *Engine) {
		y := bf16Span(make([]float32, len(x)))
		e.Unary(&kernels.Unary{X: in, Y: y}, 0, len(x))
		same(t, "bf16", y, want, x)
	})
}

// TestSumsOfWildRows compares sums, whose tails must add nothing, not even +0.
func TestSumsOfWildRows(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	eachPath(t, func(t *testing.T, e *Engine) {
		for n := 1; n < 200; n++ {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(r.NormFloat64()) * float32(math.Ldexp(1, r.IntN(40)-60))
				if r.IntN(4) == 0 {
					x[i] = float32(math.Copysign(0, -1))
				}
			}
			in := kernels.NewMat(f32Span(x), 1, n)
			got, want := kernels.NewMat(f32Span(x), 1, n), kernels.NewMat(f32Span(x), 1, n)
			mean := []kernels.Span{f32Span(x[:1]), f32Span(x[:1])}
			ref.Norm(&kernels.Norm{X: in, Y: want, Mean: mean[0]}, 0, 1)
			e.Norm(&kernels.Norm{X: in, Y: got, Mean: mean[1]}, 0, 1)
			same(t, "norm", got.Span, want.Span, x)
			same(t, "mean", mean[1], mean[0], x)
			ref.Softmax(&kernels.Softmax{X: in, Y: want}, 0, 1)
			e.Softmax(&kernels.Softmax{X: in, Y: got}, 0, 1)
			same(t, "softmax", got.Span, want.Span, x)
		}
	})
}

// TestSoftmaxOfCorners compares rows that hold infinities, NaNs, or numbers far apart, also
// where the result takes the place of the operand.
func TestSoftmaxOfCorners(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	all := corners()
	for _, span := range []func([]float32) kernels.Span{f32Span, bf16Span} {
		for n := 1; n < 300; n += 7 {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(r.NormFloat64() * 40)
				if n%3 == 0 && r.IntN(8) == 0 || n%3 == 1 && i < 2 {
					x[i] = all[r.IntN(len(all))]
				}
			}
			in, want := kernels.NewMat(span(x), 1, n), kernels.NewMat(span(x), 1, n)
			ref.Softmax(&kernels.Softmax{X: in, Y: want}, 0, 1)
			eachPath(t, func(t *testing.T, e *Engine) {
				got, place := kernels.NewMat(span(x), 1, n), kernels.NewMat(span(x), 1, n)
				e.Softmax(&kernels.Softmax{X: in, Y: got}, 0, 1)
				same(t, "softmax", got.Span, want.Span, x)
				e.Softmax(&kernels.Softmax{X: place, Y: place}, 0, 1)
				same(t, "softmax in its place", place.Span, want.Span, x)
			})
		}
	}
}

// TestNormTakesNoMemoryPerRow: rows of a norm with modulation allocate nothing.
func TestNormTakesNoMemoryPerRow(t *testing.T) {
	const rows, cols = 64, 96
	x, scale := make([]float32, rows*cols), make([]float32, cols)
	for i := range x {
		x[i] = float32(i%13) - 6
	}
	eachPath(t, func(t *testing.T, e *Engine) {
		if e.set == nil {
			t.Skip("the loops of ref take memory")
		}
		a := &kernels.Norm{Kind: kernels.LayerNorm, X: kernels.NewMat(f32Span(x), rows, cols), Y: kernels.NewMat(bf16Span(x), rows, cols), Eps: 1e-6,
			Scale: kernels.NewMat(bf16Span(scale), 1, cols), Shift: kernels.NewMat(bf16Span(scale), 1, cols), RowsPerSample: rows}
		if n := testing.AllocsPerRun(20, func() { e.Norm(a, 0, rows) }); n > 4 {
			t.Errorf("%g pieces of memory for %d rows", n, rows)
		}
	})
}
