package gemm

import (
	"testing"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// TestAtTheSmallestNormal has sums and products that are below 2^-126 before rounding and are 2^-126 after it, where
// processors flush differently: in each chain, in a chain that goes on from an earlier chunk of k, and in the passes
// of the epilogue.
func TestAtTheSmallestNormal(t *testing.T) {
	up, down := 1+float32(0x1p-23), 1-float32(0x1p-23) // their product is 1 - 2^-46
	for _, k := range []int{2, 3, 40, 300} {
		for _, m := range []kernels.Math{kernels.MathF32, kernels.MathBF16} {
			const rows, cols = 17, 37
			a, b, c := plainMat(rows, k), plainMat(cols, k), plainMat(rows, cols)
			for r := range rows {
				x := a.F32()[r*k : (r+1)*k]
				switch {
				case r%3 == 0 && m == kernels.MathF32:
					x[k-1] = up * 0x1p-60
				case r%3 == 1 && k > 2: // 2^-126, then less than half a bit off it
					x[k-3], x[k-1] = 0x1p-60, -0x1p-86
				default:
					x[k-1] = 0.5
				}
			}
			for j := range cols {
				y := b.F32()[j*k : (j+1)*k]
				y[k-1] = down * 0x1p-66
				if k > 2 {
					y[k-3] = 0x1p-66
				}
			}
			g := &kernels.Gemm{Math: m, A: a, B: b, C: c}
			scaled := *g
			gate := plainMat(1, cols)
			for j := range gate.F32() {
				gate.F32()[j] = down
			}
			scaled.A = plainMat(rows, k)
			for r := range rows {
				scaled.A.F32()[r*k] = up * 0x1p-60
			}
			scaled.B = plainMat(cols, k)
			for j := range cols {
				scaled.B.F32()[j*k] = 0x1p-66
			}
			scaled.Gate, scaled.GateRows = gate, rows
			alpha := scaled
			alpha.Gate, alpha.Alpha = kernels.Mat{}, down
			for name, g := range map[string]*kernels.Gemm{"chain": g, "gate": &scaled, "alpha": &alpha} {
				want := copyOf(g)
				ref.Backend{}.Gemm(want)
				if name == "chain" && k == 300 && m == kernels.MathF32 && want.C.F32()[0] != 0x1p-126 {
					t.Fatalf("the case misses what it is for: %g", want.C.F32()[0])
				}
				for _, e := range engines(t) {
					got := copyOf(g)
					e.Gemm(got, serial)
					if err := same(got.C, want.C); err != nil {
						t.Errorf("%s %s %s, k = %d: %v", unitOf(e), m, name, k, err)
					}
				}
			}
		}
	}
}

// plainMat is a matrix of zeros.
func plainMat(rows, cols int) kernels.Mat {
	b := &kernels.Buffer{Host: make([]byte, rows*cols*4)}
	return kernels.NewMat(kernels.Span{Buf: b, Len: rows * cols, DType: kernels.F32}, rows, cols)
}

// TestFMAAtTheSmallestNormal says which side of the corner the definition is on.
func TestFMAAtTheSmallestNormal(t *testing.T) {
	for less, want := range map[float32]float32{0x1p-76: 0x1p-126, 0x1p-75: 0} { // off by 2^-151, a tie, and by 2^-150
		if got := ref.FMA(-less, 0x1p-75, 0x1p-126); got != want {
			t.Errorf("2^-126 - %g is %g, want %g", less*0x1p-75, got, want)
		}
	}
}
