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
func addScaled(c, t unsafe.Pointer, rows int, alpha float32)

// passes512 are the passes of paths BF16 and up.
var passes512 = passes{
	add:       [2]func(c, src unsafe.Pointer, stride, rows int, columns uint32){addRowsF32, addRowsBF16},
	mul:       [2]func(c, src unsafe.Pointer, stride, rows int, columns uint32){mulRowsF32, mulRowsBF16},
	store:     [2]func(c, dst unsafe.Pointer, stride, rows int, columns uint32, bias unsafe.Pointer){storeRowsF32, storeRowsBF16},
	addScaled: addScaled,
}
