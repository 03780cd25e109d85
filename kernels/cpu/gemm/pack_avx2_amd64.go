//go:build amd64 && !noasm

package gemm

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Path AVX2 packs whole panels of 32 columns in assembly. The loops of operand.blocks pack a panel's tails, narrow
// panels and other types.

// packing has the kernels of a panel, by F32 and BF16.
type packing struct {
	lines, across [2]packPass
	step          int // of k, where numbers of a column lie side by side
}

var (
	packingF32  = packing{lines: [2]packPass{packLinesF32AVX2, packLinesBF16AVX2}, step: 8}
	packingBF16 = packing{lines: [2]packPass{packPairsF32AVX2, packPairsBF16AVX2}, step: 16,
		across: [2]packPass{packAcrossF32AVX2, packAcrossBF16AVX2}}
)

type packPass = func(dst, src unsafe.Pointer, stride, steps int)

// whole packs as many k of a panel as it can, and returns how many.
func (x *packing) whole(p unsafe.Pointer, b operand, col0, cols, k0, k int) int {
	if cols < panel || b.dtype > kernels.BF16 {
		return 0
	}
	if b.across {
		if f := x.across[b.dtype]; f != nil && k >= 4 {
			f(p, b.at(col0, k0), b.stride, k/4)
			return k &^ 3
		}
		return 0
	}
	steps := k / x.step
	for c := 0; c < cols && steps > 0; c += 8 {
		x.lines[b.dtype](unsafe.Add(p, c*4), b.at(col0+c, k0), b.stride, steps)
	}
	return steps * x.step
}

//go:noescape
func packLinesF32AVX2(dst, src unsafe.Pointer, stride, steps int)

//go:noescape
func packLinesBF16AVX2(dst, src unsafe.Pointer, stride, steps int)

//go:noescape
func packPairsF32AVX2(dst, src unsafe.Pointer, stride, steps int)

//go:noescape
func packPairsBF16AVX2(dst, src unsafe.Pointer, stride, steps int)

//go:noescape
func packAcrossF32AVX2(dst, src unsafe.Pointer, stride, steps int)

//go:noescape
func packAcrossBF16AVX2(dst, src unsafe.Pointer, stride, steps int)
