//go:build amd64 && !noasm

package gemm

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
)

// bf16Unit is MathBF16 on path BF16: A is packed like B, row by row.
type bf16Unit struct{ pairedPanels }

func newBF16Unit() unit {
	return bf16Unit{pairedPanels{pairF32: pairRowsF32, weaveF32: weaveF32,
		pairBF16: pairRowsBF16, weaveBF16: weaveBF16, unweave: unweave, turn: transposePaired16}}
}

func (bf16Unit) rows() int                 { return 6 }
func (bf16Unit) chunk() int                { return 256 }
func (bf16Unit) passes() *passes           { return passesBF16 }
func (bf16Unit) direct(kernels.DType) bool { return true }
func (bf16Unit) rowBytes(k int) int        { return apart(roundUp(k, 32) * 2) }

func (u bf16Unit) packA(block, tmp unsafe.Pointer, rowBytes int, a operand, row0, rows, k0, k, at int) {
	dst := unsafe.Add(block, at*2)
	if !a.across {
		u.pairRows(dst, a.at(row0, k0), rowBytes, a.stride, rows, k, a.dtype)
		return
	}
	const most = 512 // k that fit tmp with a tail's rows behind them
	for done := 0; done < k; done += most {
		n := min(most, k-done)
		for r := 0; r < rows; r += 32 {
			u.weave(tmp, unsafe.Add(tmp, most*64), a, row0+r, min(32, rows-r), k0+done, n)
			for h := 0; h < 2 && r+h*16 < rows; h++ {
				transpose16(unsafe.Add(dst, (r+h*16)*rowBytes+done*2), unsafe.Add(tmp, h*64), rowBytes, 128, 64, 2048, (n+31)/32)
			}
		}
	}
}

func (bf16Unit) grain() int { return 4 }

var (
	bf16Rows   = [7]func(*block){nil, bf16Rows1, bf16Rows2, bf16Rows3, bf16Rows4, bf16Rows5, bf16Rows6}
	bf16Narrow = [13]func(*block){nil, bf16Narrow1, bf16Narrow2, bf16Narrow3, bf16Narrow4, bf16Narrow5, bf16Narrow6,
		bf16Narrow7, bf16Narrow8, bf16Narrow9, bf16Narrow10, bf16Narrow11, bf16Narrow12}
)

func (bf16Unit) run(b *block, rows, at, k int) {
	b.a += uintptr(at * 2)
	b.steps, b.tail = (k+31)/32, (k%32+3)/4%8
	if b.narrow {
		b.over(rows, 12, bf16Narrow[:])
	} else {
		b.over(rows, 6, bf16Rows[:])
	}
}
