//go:build arm64 && !noasm

package gemm

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// newPassesNEON are assembly over whole rows, and plain Go over narrower ones.
func newPassesNEON(pool *scratches) *passes {
	whole := func(f func(c, src unsafe.Pointer, stride, rows int) int, op func(a, b float32) float32, d kernels.DType) pass {
		plain := combinePass(op, d)
		return func(c, src unsafe.Pointer, stride, rows int, columns uint32) {
			if columns != bits(panel) {
				plain(c, src, stride, rows, columns)
				return
			}
			pool.keeping(c, rows, func() int { return f(c, src, stride, rows) }, func() { plain(c, src, stride, rows, columns) })
		}
	}
	store := func(f func(c, dst unsafe.Pointer, stride, rows int, bias unsafe.Pointer), d kernels.DType) storePass {
		plain := storeGo(d)
		return func(c, dst unsafe.Pointer, stride, rows int, columns uint32, bias unsafe.Pointer) {
			if columns != bits(panel) {
				plain(c, dst, stride, rows, columns, bias)
				return
			}
			f(c, dst, stride, rows, bias)
		}
	}
	return &passes{
		add:   [2]pass{whole(addRowsF32NEON, ref.Add, kernels.F32), whole(addRowsBF16NEON, ref.Add, kernels.BF16)},
		mul:   [2]pass{whole(mulRowsF32NEON, ref.Mul, kernels.F32), whole(mulRowsBF16NEON, ref.Mul, kernels.BF16)},
		store: [2]storePass{store(storeRowsF32NEON, kernels.F32), store(storeRowsBF16NEON, kernels.BF16)},
		addScaled: func(c, t unsafe.Pointer, rows int, alpha float32) {
			pool.keeping(c, rows, func() int { return addScaledNEON(c, t, rows, alpha) }, func() {
				x, y := unsafe.Slice((*float32)(c), rows*panel), unsafe.Slice((*float32)(t), rows*panel)
				for i := range x {
					x[i] = ref.Add(x[i], ref.Mul(alpha, y[i]))
				}
			})
		},
	}
}

// keeping runs a pass that changes rows of C; where it flushed a result, plain Go does it over, from the old C.
func (p *scratches) keeping(c unsafe.Pointer, rows int, fast func() int, plain func()) {
	s := p.take()
	rowsOfC := unsafe.Slice((*float32)(c), rows*panel)
	kept := s.keep(rowsOfC)
	if fast() != 0 {
		copy(rowsOfC, kept)
		plain()
	}
	p.put(s)
}

//go:noescape
func addRowsF32NEON(c, src unsafe.Pointer, stride, rows int) (flushed int)

//go:noescape
func addRowsBF16NEON(c, src unsafe.Pointer, stride, rows int) (flushed int)

//go:noescape
func mulRowsF32NEON(c, src unsafe.Pointer, stride, rows int) (flushed int)

//go:noescape
func mulRowsBF16NEON(c, src unsafe.Pointer, stride, rows int) (flushed int)

//go:noescape
func storeRowsF32NEON(c, dst unsafe.Pointer, stride, rows int, bias unsafe.Pointer)

//go:noescape
func storeRowsBF16NEON(c, dst unsafe.Pointer, stride, rows int, bias unsafe.Pointer)

//go:noescape
func addScaledNEON(c, t unsafe.Pointer, rows int, alpha float32) (flushed int)
