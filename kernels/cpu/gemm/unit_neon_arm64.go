//go:build arm64 && !noasm

package gemm

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
)

// Path NEON multiplies panels of fp32 by rows of fp32, in both arithmetics. Rows of A are
// rounded to bf16 while they are packed, the even numbers of each 32 before the odd ones;
// panels of bf16 are widened a chunk of k at a time, once for all rows of a call.

// neonUnit is MathF32.
type neonUnit struct {
	pool   *scratches
	finish *passes
}

func newNEON() neonUnit {
	pool := &scratches{}
	return neonUnit{pool, newPassesNEON(pool)}
}

func (neonUnit) form() int                 { return formPanels }
func (neonUnit) step() int                 { return 32 }
func (neonUnit) grain() int                { return 1 }
func (neonUnit) rowBytes(k int) int        { return apart(roundUp(k, 32) * 4) }
func (neonUnit) panelBytes(k int) int      { return roundUp(k, 32) * panel * 4 }
func (neonUnit) rows() int                 { return 6 }
func (neonUnit) chunk() int                { return neonChunk }
func (u neonUnit) passes() *passes         { return u.finish }
func (neonUnit) direct(kernels.DType) bool { return false }
func (neonUnit) reads(operand) bool        { return false }

// neonChunk is the k of a panel's part that stays in the first cache, as fp32: 16 KiB.
const neonChunk = 128

func (neonUnit) packA(block, tmp unsafe.Pointer, rowBytes int, a operand, row0, rows, k0, k, at int) {
	linesNEON(unsafe.Add(block, at*4), tmp, rowBytes, a, row0, rows, k0, k)
}

func (neonUnit) unpack(dst, p unsafe.Pointer, k int) {
	*(*[panel]float32)(dst) = *(*[panel]float32)(unsafe.Add(p, k*panel*4))
}

func (u neonUnit) packB(p, tmp unsafe.Pointer, b operand, col0, cols, k0, k int) {
	if w := b.packed; w != nil {
		turnedNEON(p, col0, cols, k, func(dst unsafe.Pointer, j, k int) {
			u.unpack(dst, unsafe.Add(pointer(w.Buf.Host), j*u.panelBytes(w.K)), k)
		})
		return
	}
	columnsNEON(p, tmp, b, col0, cols, k0, k)
	clear(unsafe.Slice((*float32)(p), roundUp(k, 32)*panel)[k*panel:])
}

func (u neonUnit) run(b *block, rows, at, k int) {
	b.a += uintptr(at * 4)
	b.steps = k
	u.pool.exactly(b, rows, f32NEON[width(b)][:], chainF32)
}

// neonWide is MathBF16 on panels of fp32: package attention has those.
type neonWide struct{ neonUnit }

func newNEONWide() neonWide { return neonWide{newNEON()} }

func (neonWide) form() int  { return formWide }
func (neonWide) grain() int { return 32 }

func (u neonWide) packA(block, tmp unsafe.Pointer, rowBytes int, a operand, row0, rows, k0, k, at int) {
	u.neonUnit.packA(block, tmp, rowBytes, a, row0, rows, k0, k, at)
	padded := roundUp(k, 32)
	for r := range rows {
		row := unsafe.Slice((*float32)(unsafe.Add(block, r*rowBytes+at*4)), padded)
		clear(row[k:])
		splitNEON(pointer(row), padded/32)
	}
}

func (u neonWide) packB(p, tmp unsafe.Pointer, b operand, col0, cols, k0, k int) {
	u.neonUnit.packB(p, tmp, b, col0, cols, k0, k)
	if b.dtype == kernels.F32 {
		groups := k * panel / 8
		const most = 1 << 10
		for done := 0; done < groups; done += most {
			n := min(most, groups-done)
			narrowNEON(tmp, unsafe.Add(p, done*32), n)
			widenNEON(unsafe.Add(p, done*32), tmp, n)
		}
	}
}

func (u neonWide) run(b *block, rows, at, k int) {
	b.a += uintptr(at * 4)
	b.steps = (k + 31) / 32
	u.pool.exactly(b, rows, bf16NEON[width(b)][:], chainsBF16)
}

// neonBF16 is MathBF16: a panel is [k][32 columns] of bf16.
type neonBF16 struct{ neonWide }

func newNEONBF16() neonBF16 { return neonBF16{newNEONWide()} }

func (neonBF16) form() int            { return formNarrow }
func (neonBF16) panelBytes(k int) int { return roundUp(k, 32) * panel * 2 }

func (neonBF16) unpack(dst, p unsafe.Pointer, k int) {
	*(*[panel]uint16)(dst) = *(*[panel]uint16)(unsafe.Add(p, k*panel*2))
}

func (u neonBF16) packB(p, tmp unsafe.Pointer, b operand, col0, cols, k0, k int) {
	const most, first = 256, 16 << 10 // k at a time, after columnsNEON's part of tmp
	wide := unsafe.Add(tmp, first)
	for done := 0; done < k; done += most {
		n := min(most, k-done)
		to := unsafe.Add(p, done*panel*2)
		switch w := b.packed; {
		case w != nil:
			turnedNEON(wide, col0, cols, n, func(dst unsafe.Pointer, j, k int) {
				from := unsafe.Add(pointer(w.Buf.Host), (done/panel+j)*u.panelBytes(w.K)+k*panel*2)
				widenNEON(dst, from, panel/8)
			})
		case b.across && b.dtype == kernels.BF16:
			for i := range n {
				row := unsafe.Slice((*uint16)(unsafe.Add(to, i*panel*2)), panel)
				copy(row, unsafe.Slice((*uint16)(b.at(col0, k0+done+i)), cols))
				clear(row[cols:])
			}
			continue
		default:
			columnsNEON(wide, tmp, b, col0, cols, k0+done, n)
		}
		narrowNEON(to, wide, n*panel/8)
	}
	clear(unsafe.Slice((*uint16)(p), roundUp(k, 32)*panel)[k*panel:])
}

func (u neonBF16) run(b *block, rows, at, k int) {
	b.a += uintptr(at * 4)
	s := u.pool.take()
	all := *b
	for done := 0; done < k; done += neonChunk {
		steps := (min(neonChunk, k-done) + 31) / 32
		*b = all
		b.a += uintptr(done * 4)
		b.b = uintptr(pointer(s.wide[:]))
		b.steps = steps
		if done > 0 {
			b.start = 1
		}
		widenNEON(pointer(s.wide[:]), u.address(all.b, done), steps*32*panel/8)
		u.pool.exactly(b, rows, bf16NEON[width(b)][:], chainsBF16)
	}
	u.pool.put(s)
}

// address is where the panel's row k lies, whose memory the caller keeps alive.
func (neonBF16) address(p uintptr, k int) unsafe.Pointer {
	at := p + uintptr(k*panel*2)
	return pointerAt(at)
}

// width says which kernels a block takes: those of 16 columns, or of 32.
func width(b *block) int {
	if b.narrow {
		return 0
	}
	return 1
}
