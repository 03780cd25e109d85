//go:build amd64 && !noasm

package gemm

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
)

// wideUnit is MathBF16 on path AVX512: A is packed as fp32, rounded to bf16, and the
// kernel spreads B's halves.
type wideUnit struct{ pairedPanels }

func newWideUnit() unit {
	return wideUnit{pairedPanels{pairF32: pairRowsF32BW, weaveF32: weaveF32BW,
		pairBF16: pairRowsBF16, weaveBF16: weaveBF16, unweave: unweave, turn: transposePaired16}}
}

func (wideUnit) rows() int                 { return 6 }
func (wideUnit) grain() int                { return 32 }
func (wideUnit) chunk() int                { return 256 }
func (wideUnit) passes() *passes           { return passes512 }
func (wideUnit) direct(kernels.DType) bool { return false }
func (wideUnit) rowBytes(k int) int        { return apart(roundUp(k, 32) * 4) }

func (wideUnit) packA(block, tmp unsafe.Pointer, rowBytes int, a operand, row0, rows, k0, k, at int) {
	f32Unit{}.packA(block, tmp, rowBytes, a, row0, rows, k0, k, at)
	roundRows(unsafe.Add(block, at*4), rowBytes, rows, k)
}

var wideRows = [7]func(*block){nil, wideRows1, wideRows2, wideRows3, wideRows4, wideRows5, wideRows6}

func (wideUnit) run(b *block, rows, at, k int) {
	b.a += uintptr(at * 4)
	b.steps = (k + 31) / 32
	b.over(rows, 6, wideRows[:])
}
