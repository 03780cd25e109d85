//go:build arm64 && !noasm

package gemm

import "unsafe"

//go:generate go run ./gen

// The block kernels by arithmetic, width of their blocks (16 or 32 columns) and rows.
var (
	f32NEON = [2][7]func(*block){
		{nil, f32NEON1x4, f32NEON2x4, f32NEON3x4, f32NEON4x4, f32NEON5x4, f32NEON6x4},
		{nil, f32NEON1x8, f32NEON2x8, f32NEON3x8, f32NEON4x4, f32NEON5x4, f32NEON6x4},
	}
	bf16NEON = [2][7]func(*block){
		{nil, bf16NEON1x4, bf16NEON2x4, bf16NEON3x4, bf16NEON4x4, bf16NEON5x4, bf16NEON6x4},
		{nil, bf16NEON1x8, bf16NEON2x8, bf16NEON3x8, bf16NEON4x4, bf16NEON5x4, bf16NEON6x4},
	}
)

//go:noescape
func f32NEON1x4(a *block)

//go:noescape
func f32NEON2x4(a *block)

//go:noescape
func f32NEON3x4(a *block)

//go:noescape
func f32NEON4x4(a *block)

//go:noescape
func f32NEON5x4(a *block)

//go:noescape
func f32NEON6x4(a *block)

//go:noescape
func f32NEON1x8(a *block)

//go:noescape
func f32NEON2x8(a *block)

//go:noescape
func f32NEON3x8(a *block)

//go:noescape
func bf16NEON1x4(a *block)

//go:noescape
func bf16NEON2x4(a *block)

//go:noescape
func bf16NEON3x4(a *block)

//go:noescape
func bf16NEON4x4(a *block)

//go:noescape
func bf16NEON5x4(a *block)

//go:noescape
func bf16NEON6x4(a *block)

//go:noescape
func bf16NEON1x8(a *block)

//go:noescape
func bf16NEON2x8(a *block)

//go:noescape
func bf16NEON3x8(a *block)

//go:noescape
func turnNEON(dst, src unsafe.Pointer, dstStride, srcStride, dstStep, srcStep, count int)

//go:noescape
func widenNEON(dst, src unsafe.Pointer, groups int)

//go:noescape
func narrowNEON(dst, src unsafe.Pointer, groups int)

//go:noescape
func splitNEON(p unsafe.Pointer, steps int)
