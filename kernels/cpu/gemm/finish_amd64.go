//go:build amd64 && !noasm

package gemm

import "unsafe"

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
func addScaled(c, t unsafe.Pointer, rows int, alpha float32)

// passes512 are the passes of path AVX512; passesBF16 round faster.
var (
	passes512  = passesWith(storeRowsBF16BW)
	passesBF16 = passesWith(storeRowsBF16)
)

func passesWith(storeBF16 storePass) *passes {
	return &passes{
		add:       [2]pass{addRowsF32, addRowsBF16},
		mul:       [2]pass{mulRowsF32, mulRowsBF16},
		store:     [2]storePass{storeRowsF32, storeBF16},
		addScaled: addScaled,
	}
}
