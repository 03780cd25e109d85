//go:build amd64 && !noasm

package gemm

import "unsafe"

//go:noescape
func pairRowsBF16(dst, src unsafe.Pointer, dstStride, srcStride, rows, k int)

//go:noescape
func pairRowsF32(dst, src unsafe.Pointer, dstStride, srcStride, rows, k int)

//go:noescape
func transpose16(dst, src unsafe.Pointer, dstStride, srcStride, dstStep, srcStep, count int)

//go:noescape
func transposePaired16(dst, src unsafe.Pointer, dstStride, srcStride, dstStep, srcStep, count int)

//go:noescape
func weaveBF16(dst, src unsafe.Pointer, stride, steps int, columns uint32)

//go:noescape
func weaveF32(dst, src unsafe.Pointer, stride, steps int, columns uint32)

//go:noescape
func unweave(dst, src unsafe.Pointer, srcStep, blocks int)

//go:noescape
func widenRows(dst, src unsafe.Pointer, dstStride, srcStride, rows, k int)

//go:noescape
func panelRowsBF16(dst, src unsafe.Pointer, stride, k int, columns uint32)

//go:noescape
func panelRowsF32(dst, src unsafe.Pointer, stride, k int, columns uint32)

//go:noescape
func pairRowsF32BW(dst, src unsafe.Pointer, dstStride, srcStride, rows, k int)

//go:noescape
func weaveF32BW(dst, src unsafe.Pointer, stride, steps int, columns uint32)

//go:noescape
func roundRows(p unsafe.Pointer, stride, rows, k int)
