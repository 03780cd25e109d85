//go:build amd64 && !noasm

package gemm

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

//go:noescape
func addRowsBF16(c, src unsafe.Pointer, stride, rows int, columns uint32)

//go:noescape
func addRowsF32(c, src unsafe.Pointer, stride, rows int, columns uint32)

//go:noescape
func mulRowsBF16(c, src unsafe.Pointer, stride, rows int, columns uint32)

//go:noescape
func mulRowsF32(c, src unsafe.Pointer, stride, rows int, columns uint32)

//go:noescape
func storeRowsBF16(c, dst unsafe.Pointer, stride, rows int, columns uint32, bias unsafe.Pointer)

//go:noescape
func storeRowsF32(c, dst unsafe.Pointer, stride, rows int, columns uint32, bias unsafe.Pointer)

//go:noescape
func storeRowsBF16BW(c, dst unsafe.Pointer, stride, rows int, columns uint32, bias unsafe.Pointer)

//go:noescape
func epilogueRows(a *epilogue)

//go:noescape
func epilogueRowsBW(a *epilogue)

//go:noescape
func addScaled(c, t unsafe.Pointer, rows int, alpha float32)

// passes512 are the passes of path AVX512; passesBF16 round faster.
var (
	passes512  = passesWith(storeRowsBF16BW, epilogueRowsBW)
	passesBF16 = passesWith(storeRowsBF16, epilogueRows)
)

func passesWith(storeBF16 storePass, whole func(*epilogue)) *passes {
	return &passes{
		add:       [2]pass{addRowsF32, addRowsBF16},
		mul:       [2]pass{mulRowsF32, mulRowsBF16},
		store:     [2]storePass{storeRowsF32, storeBF16},
		addScaled: addScaled,
		whole:     whole,
	}
}

// passesAVX2 are assembly over whole rows, and plain Go over narrower ones.
var passesAVX2 = &passes{
	add: [2]pass{
		wholeRows(addRowsF32AVX2, combinePass(ref.Add, kernels.F32)),
		wholeRows(addRowsBF16AVX2, combinePass(ref.Add, kernels.BF16)),
	},
	mul: [2]pass{
		wholeRows(mulRowsF32AVX2, combinePass(ref.Mul, kernels.F32)),
		wholeRows(mulRowsBF16AVX2, combinePass(ref.Mul, kernels.BF16)),
	},
	store: [2]storePass{
		wholeStore(storeRowsF32AVX2, storeGo(kernels.F32)),
		wholeStore(storeRowsBF16AVX2, storeGo(kernels.BF16)),
	},
	addScaled: addScaledAVX2,
}

func wholeRows(whole func(c, src unsafe.Pointer, stride, rows int), part pass) pass {
	return func(c, src unsafe.Pointer, stride, rows int, columns uint32) {
		if columns == bits(panel) {
			whole(c, src, stride, rows)
			return
		}
		part(c, src, stride, rows, columns)
	}
}

func wholeStore(whole func(c, dst unsafe.Pointer, stride, rows int, bias unsafe.Pointer), part storePass) storePass {
	return func(c, dst unsafe.Pointer, stride, rows int, columns uint32, bias unsafe.Pointer) {
		if columns == bits(panel) {
			whole(c, dst, stride, rows, bias)
			return
		}
		part(c, dst, stride, rows, columns, bias)
	}
}

// widenTo widens numbers that lie side by side.
func widenTo(dst []float32, p unsafe.Pointer, d kernels.DType) {
	if d == kernels.F32 {
		copy(dst, unsafe.Slice((*float32)(p), len(dst)))
		return
	}
	whole := len(dst) / 8
	if whole > 0 {
		widenAVX2(pointer(dst), p, whole)
	}
	src := unsafe.Slice((*uint16)(p), len(dst))
	for i := whole * 8; i < len(dst); i++ {
		dst[i] = ref.FromBF16(src[i])
	}
}

//go:noescape
func addRowsF32AVX2(c, src unsafe.Pointer, stride, rows int)

//go:noescape
func addRowsBF16AVX2(c, src unsafe.Pointer, stride, rows int)

//go:noescape
func mulRowsF32AVX2(c, src unsafe.Pointer, stride, rows int)

//go:noescape
func mulRowsBF16AVX2(c, src unsafe.Pointer, stride, rows int)

//go:noescape
func storeRowsF32AVX2(c, dst unsafe.Pointer, stride, rows int, bias unsafe.Pointer)

//go:noescape
func storeRowsBF16AVX2(c, dst unsafe.Pointer, stride, rows int, bias unsafe.Pointer)

//go:noescape
func addScaledAVX2(c, t unsafe.Pointer, rows int, alpha float32)

//go:noescape
func widenAVX2(dst, src unsafe.Pointer, groups int)

//go:noescape
func roundAVX2(dst, src unsafe.Pointer, groups int)
