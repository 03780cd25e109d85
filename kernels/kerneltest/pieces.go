package kerneltest

import (
	"fmt"

	"github.com/darkroom-rl/darkroom/kernels"
)

// pieces are operands that a backend may take some elements at a time: rows that start on 16 bytes, and
// rows enough to be read ahead of the sums that they belong to. Some lie so, and some only nearly.
func pieces() []Case {
	const rows, per = 41, 20
	var all []Case
	for _, d := range floats {
		for _, cols := range []int{8, 72, 1032} {
			name := fmt.Sprintf("%s %dx%d", d, rows, cols)
			mat := func(e *Env) kernels.Mat { return e.Mat(d, rows, cols, 8, 1) }
			junk := func(e *Env) kernels.Mat { return e.JunkMat(d, rows, cols, 8) }
			of := func(e *Env) kernels.Mat { return e.Mat(d, 3, cols, 16, 1) }
			all = append(all, Case{"Norm", name, func(e *Env) {
				a := kernels.NormBackward{Norm: kernels.Norm{X: mat(e), Y: junk(e), Eps: 1e-5, RowsPerSample: per, Weight: e.Floats(d, cols, 1), Bias: e.Floats(kernels.F32, cols, 1),
					Scale: of(e), Shift: of(e), Mean: e.Junk(kernels.F32, rows), Rstd: e.Junk(kernels.F32, rows)},
					DY: mat(e), DX: junk(e), DWeight: e.Zeros(kernels.F32, cols), DBias: e.Zeros(kernels.F32, cols), DScale: e.JunkMat(d, 3, cols, 0), DShift: e.JunkMat(d, 3, cols, 0)}
				e.B.Norm(&a.Norm)
				e.B.NormBackward(&a)
				e.out("y dx", a.Y, a.DX, a.DScale, a.DShift)
				e.Out("dweight", a.DWeight)
				e.Out("dbias", a.DBias)
			}}, Case{"Modulate", name, func(e *Env) {
				a := kernels.ModulateBackward{Modulate: kernels.Modulate{X: mat(e), Y: junk(e), Scale: of(e), Shift: of(e), RowsPerSample: per},
					DY: mat(e), DX: junk(e), DScale: e.JunkMat(d, 3, cols, 0), DShift: e.JunkMat(d, 3, cols, 0)}
				e.B.Modulate(&a.Modulate)
				e.B.ModulateBackward(&a)
				e.out("y dx", a.Y, a.DX, a.DScale, a.DShift)
				a.DScale, a.DShift, a.DX = kernels.Mat{}, kernels.Mat{}, junk(e)
				e.B.ModulateBackward(&a)
				e.out("dx alone", a.DX)
			}}, Case{"Gated", name, func(e *Env) {
				a := kernels.GatedBackward{Gated: kernels.Gated{X: mat(e), Residual: mat(e), Y: junk(e), Gate: of(e), RowsPerSample: per},
					DY: mat(e), DX: junk(e), DGate: e.JunkMat(d, 3, cols, 0)}
				e.B.Gated(&a.Gated)
				e.B.GatedBackward(&a)
				e.out("y dx", a.Y, a.DX, a.DGate)
				a.DGate, a.DX = kernels.Mat{}, junk(e)
				e.B.GatedBackward(&a)
				e.out("dx alone", a.DX)
			}}, Case{"GLU", name, func(e *Env) {
				a := kernels.GLUBackward{GLU: kernels.GLU{Act: kernels.SiLU, X: mat(e), Gate: mat(e), Y: junk(e)}, DY: mat(e), DX: junk(e), DGate: junk(e)}
				e.B.GLU(&a.GLU)
				e.B.GLUBackward(&a)
				e.out("y dx", a.Y, a.DX, a.DGate)
			}}, Case{"SumRows", name, func(e *Env) {
				out := e.Floats(kernels.F32, cols, 1)
				e.B.SumRows(&kernels.SumRows{X: mat(e), Segments: []int{33, 0, 8}, Out: out, Accumulate: true})
				e.Out("out", out)
			}}, Case{"Softmax", name, func(e *Env) {
				y, dx := junk(e), junk(e)
				e.B.Softmax(&kernels.Softmax{X: mat(e), Y: y})
				e.B.SoftmaxBackward(&kernels.SoftmaxBackward{Y: y, DY: mat(e), DX: dx})
				e.out("y dx", y, dx)
			}}, Case{"Embedding", name, func(e *Env) {
				y := e.JunkMat(d, 4, cols, 8)
				e.B.Embedding(&kernels.Embedding{Table: mat(e), Index: e.Ints([]int32{40, 0, 7, 7}), Y: y})
				e.out("y", y)
			}}, Case{"Binary", name, func(e *Env) {
				x, z := e.Floats(d, rows*cols, 1), e.Junk(d, rows*cols)
				for _, y := range []kernels.Span{e.Floats(d, cols, 1), e.Floats(d, rows*cols, 1)} {
					e.B.Binary(&kernels.Binary{Op: kernels.Mul, X: x, Y: y, Z: z})
					e.Out(fmt.Sprint("z, y of ", y.Len), z)
				}
			}})
		}
		for _, to := range floats {
			// Rows of 16 whose starts are multiples of 8 or, of either side, of 4 only; and rows of 12.
			for _, c := range [][4]int{{16, 24, 32, 0}, {16, 20, 24, 0}, {16, 24, 20, 0}, {16, 24, 32, 3}, {12, 16, 16, 0}} {
				cols, from, into, off := c[0], c[1], c[2], c[3]
				all = append(all, Case{"Copy", fmt.Sprintf("%s to %s rows %v", d, to, c), func(e *Env) {
					src, dst, sum := e.Floats(d, 6*from+off, 1), e.Junk(to, 6*into), e.Floats(to, 6*into, 1)
					a := kernels.Copy{Src: src.Slice(off, src.Len), Dst: dst, Shape: [5]int{1, 1, 2, 3, cols}, SrcStride: [5]int{2: from, 3: 2 * from, 4: 1}, DstStride: [5]int{2: 3 * into, 3: into, 4: 1}}
					e.B.Copy(&a)
					a.Dst, a.Accumulate = sum, true
					e.B.Copy(&a)
					e.Out("dst", dst)
					e.Out("sum", sum)
				}})
			}
		}
		for _, c := range []int{8, 12, 16} {
			all = append(all, Case{"Upsample", fmt.Sprintf("%s %d channels", d, c), func(e *Env) {
				x, y := e.Floats(d, 2*3*5*c, 1), e.Junk(d, 2*3*5*c*4)
				e.B.Upsample(&kernels.Upsample{X: x, Y: y, N: 2, H: 3, W: 5, C: c, Factor: 2})
				e.Out("y", y)
			}})
		}
	}
	return all
}

// out names matrices as results.
func (e *Env) out(name string, all ...kernels.Mat) {
	for i, m := range all {
		e.Out(fmt.Sprint(name, " ", i), m.Span)
	}
}
