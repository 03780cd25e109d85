//go:build amd64 && !noasm

package gemm

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Path AMX: C += A·B by tiles of 16 rows x 64 bytes, two by two. A product of tiles is
// one step of the bf16 rule (32 k: C = C + (E + O)), so sums stay in tiles over all
// steps of a chunk, with ref's bits.
//
//	panel of B  [k/32][16 dword rows][32 columns], a dword {low: k = 2i, high: 2i+1}
//	block of A  rows of bf16, k in its order and padded to 32
//
// A chunk of 512 k keeps a panel (32 KiB) in L1. Finished blocks go through scratch:
// storing tiles in a wide C directly was measured to be slower.

// amxUnit is MathBF16 on path AMX. It packs like bf16Unit, with k in its order.
type amxUnit struct{ bf16Unit }

func newAMXUnit() unit {
	return amxUnit{bf16Unit{pairedPanels{pairF32: pairRowsF32Tiles, pairBF16: pairRowsBF16Tiles,
		weaveF32: weaveF32Tiles, weaveBF16: weaveBF16Tiles, unweave: unweaveTiles, turn: transpose16}}}
}

func (amxUnit) form() int                 { return formTiles }
func (amxUnit) rows() int                 { return 32 }
func (amxUnit) chunk() int                { return 512 }
func (amxUnit) grain() int                { return 32 }
func (amxUnit) direct(kernels.DType) bool { return false }
func (amxUnit) reads(operand) bool        { return false }

func (amxUnit) unpack(dst, p unsafe.Pointer, k int) {
	to, from := (*[panel]uint16)(dst), (*[2*panel - 1]uint16)(unsafe.Add(p, k/2*128+k%2*2))
	for c := range to {
		to[c] = from[2*c]
	}
}

// tileSizes is LDTILECFG's operand.
type tileSizes struct {
	palette, startRow uint8
	_                 [14]byte
	columnBytes       [16]uint16
	rows              [16]uint8
}

// sizesOf holds the sizes for blocks of 1 to 32 rows.
var sizesOf = func() (all [panel + 1]tileSizes) {
	for rows := 1; rows <= panel; rows++ {
		s := &all[rows]
		s.palette = 1
		for tile := range 8 {
			n := 16 // T6, T7: a step of B
			switch tile {
			case 0, 1, 4:
				n = min(rows, 16)
			case 2, 3, 5:
				n = max(rows-16, 0)
			}
			if n > 0 {
				s.rows[tile], s.columnBytes[tile] = uint8(n), 64
			}
		}
	}
	return all
}()

func (amxUnit) run(b *block, rows, at, k int) {
	b.a += uintptr(at * 2)
	b.steps = (k + 31) / 32
	b.aheadStep = 256 // four lines, as the kernels ask for
	if b.aheadBytes == 0 {
		b.aheadStep = 0
	}
	tall, short := amxTall, amxShort
	if b.narrow {
		tall, short = amxTallNarrow, amxShortNarrow
	}
	if b.blocks = rows / 32; b.blocks > 0 {
		b.tiles = uintptr(unsafe.Pointer(&sizesOf[32]))
		tall(b)
		b.a += uintptr(b.blocks*32) * b.lda
		b.c += uintptr(b.blocks * 32 * panel * 4)
		b.ahead += uintptr(b.blocks*b.steps) * b.aheadStep
	}
	rest := rows % 32
	b.blocks, b.tiles = 1, uintptr(unsafe.Pointer(&sizesOf[rest]))
	switch {
	case rest > 16:
		tall(b)
	case rest > 0:
		short(b)
	}
}

//go:noescape
func amxTall(a *block)

//go:noescape
func amxShort(a *block)

//go:noescape
func amxTallNarrow(a *block)

//go:noescape
func amxShortNarrow(a *block)

//go:noescape
func pairRowsBF16Tiles(dst, src unsafe.Pointer, dstStride, srcStride, rows, k int)

//go:noescape
func pairRowsF32Tiles(dst, src unsafe.Pointer, dstStride, srcStride, rows, k int)

//go:noescape
func weaveBF16Tiles(dst, src unsafe.Pointer, stride, steps int, columns uint32)

//go:noescape
func weaveF32Tiles(dst, src unsafe.Pointer, stride, steps int, columns uint32)

//go:noescape
func unweaveTiles(dst, src unsafe.Pointer, srcStep, blocks int)
