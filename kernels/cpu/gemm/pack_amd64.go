//go:build amd64 && !noasm

package gemm

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
)

// pairedPanels is how B is packed for bf16 on paths AVX512, BF16 and AMX, which differ
// in how they round fp32, or in the order of k.
type pairedPanels struct {
	pairF32, pairBF16   func(dst, src unsafe.Pointer, dstStride, srcStride, rows, k int)
	weaveF32, weaveBF16 func(dst, src unsafe.Pointer, stride, steps int, columns uint32)
	unweave             func(dst, src unsafe.Pointer, srcStep, blocks int)
	turn                func(dst, src unsafe.Pointer, dstStride, srcStride, dstStep, srcStep, count int) // of 16 lines as they are
}

// paired is the index of the bf16 of k and column c in a panel.
func paired(k, c int) int { return (k&^3/2+k&1)*64 + c*2 + 1 - k>>1&1 }

// unpackPaired reads the 32 columns at k.
func unpackPaired(dst, p unsafe.Pointer, k int) {
	to, from := (*[panel]uint16)(dst), (*[2*panel - 1]uint16)(unsafe.Add(p, paired(k, 0)*2))
	for c := range to {
		to[c] = from[2*c]
	}
}

func (pairedPanels) unpack(dst, p unsafe.Pointer, k int) { unpackPaired(dst, p, k) }

func (pairedPanels) form() int            { return formPaired }
func (pairedPanels) step() int            { return 32 }
func (pairedPanels) panelBytes(k int) int { return roundUp(k, 32) * panel * 2 }

func (u pairedPanels) packB(p, tmp unsafe.Pointer, b operand, col0, cols, k0, k int) {
	switch {
	case b.packed != nil:
		u.repack(p, tmp, b.packed, col0, k)
	case b.across:
		u.weave(p, tmp, b, col0, cols, k0, k)
	default:
		for h := range 2 {
			n := max(0, min(16, cols-16*h))
			half, full := unsafe.Add(p, h*64), 0
			if n == 16 && b.dtype == kernels.BF16 {
				if full = k &^ 31; full > 0 {
					u.turn(half, b.at(col0+16*h, k0), 128, b.stride, 2048, 64, full/32)
				}
			}
			if full == k {
				continue
			}
			u.tiles(unsafe.Add(half, full*64), tmp, b, col0+16*h, n, k0+full, k-full)
		}
	}
}

// tiles packs up to 16 lines, with zeros for those that lack, by way of tmp.
func (u pairedPanels) tiles(half, tmp unsafe.Pointer, b operand, line, n, k0, k int) {
	const most = 512
	const row = most*2 + 64
	if n < 16 {
		clear(unsafe.Slice((*byte)(tmp), 16*row))
	}
	for done := 0; done < k; done += most {
		length := min(most, k-done)
		if n > 0 {
			u.pairRows(tmp, b.at(line, k0+done), row, b.stride, n, length, b.dtype)
		}
		transpose16(unsafe.Add(half, done*64), tmp, 128, row, 2048, 64, (length+31)/32)
	}
}

// oneCall is about as many numbers as one call of assembly may pack: the collector
// waits for it to return.
const oneCall = 1 << 19

func (u pairedPanels) pairRows(dst, src unsafe.Pointer, dstStride, srcStride, rows, k int, d kernels.DType) {
	f := u.pairBF16
	if d == kernels.F32 {
		f = u.pairF32
	}
	some := max(1, oneCall/k)
	for r := 0; r < rows; r += some {
		f(unsafe.Add(dst, r*dstStride), unsafe.Add(src, r*srcStride), dstStride, srcStride, min(some, rows-r), k)
	}
}

// weave packs columns that lie across k; the rows of a last, partial step pass by tmp.
func (u pairedPanels) weave(dst, tmp unsafe.Pointer, b operand, col0, cols, k0, k int) {
	one := func(dst, src unsafe.Pointer, stride, steps int) {
		if b.dtype == kernels.F32 {
			u.weaveF32(dst, src, stride, steps, bits(cols))
		} else {
			u.weaveBF16(dst, src, stride, steps, bits(cols))
		}
	}
	const some = oneCall / 32 / panel
	for step := 0; step < k/32; step += some {
		one(unsafe.Add(dst, step*2048), b.at(col0, k0+step*32), b.stride, min(some, k/32-step))
	}
	if tail := k % 32; tail > 0 {
		width := panel * b.size
		rows := unsafe.Slice((*byte)(tmp), 32*width)
		clear(rows)
		for i := range tail {
			copy(rows[i*width:], unsafe.Slice((*byte)(b.at(col0, k0+k-tail+i)), cols*b.size))
		}
		one(unsafe.Add(dst, (k-tail)*64), tmp, width, 1)
	}
}

// repack makes a panel of 32 columns over k = the weight's rows from its forward panels.
func (u pairedPanels) repack(p, tmp unsafe.Pointer, w *kernels.Packed, col0, k int) {
	src := unsafe.Add(pointer(w.Buf.Host), col0*64)
	size := u.panelBytes(w.K)
	const most = 8 // blocks in tmp
	for i := 0; i < panels(k); i += most {
		n := min(most, panels(k)-i)
		u.unweave(tmp, unsafe.Add(src, i*size), size, n)
		for h := range 2 {
			transpose16(unsafe.Add(p, i*2048+h*64), unsafe.Add(tmp, h*1024), 128, 64, 2048, 2048, n)
		}
	}
}

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
