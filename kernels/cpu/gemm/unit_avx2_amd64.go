//go:build amd64 && !noasm

package gemm

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// Path AVX2 has kernels in assembly, and packs whole panels in it; the rest of packing is plain Go.

// f32AVX2 is MathF32.
type f32AVX2 struct{}

func (f32AVX2) form() int                 { return formPanels }
func (f32AVX2) step() int                 { return 32 }
func (f32AVX2) grain() int                { return 1 }
func (f32AVX2) rowBytes(k int) int        { return apart(roundUp(k, 32) * 4) }
func (f32AVX2) panelBytes(k int) int      { return roundUp(k, 32) * panel * 4 }
func (f32AVX2) rows() int                 { return 6 }
func (f32AVX2) chunk() int                { return 128 }
func (f32AVX2) passes() *passes           { return passesAVX2 }
func (f32AVX2) direct(kernels.DType) bool { return false }
func (f32AVX2) reads(a operand) bool      { return a.inPlace() }

func (f32AVX2) packA(block, tmp unsafe.Pointer, rowBytes int, a operand, row0, rows, k0, k, at int) {
	block = unsafe.Add(block, at*4)
	if !a.across {
		for r := range rows {
			widenTo(unsafe.Slice((*float32)(unsafe.Add(block, r*rowBytes)), k), a.at(row0+r, k0), a.dtype)
		}
		return
	}
	line := unsafe.Slice((*float32)(tmp), rows)
	for i := range k {
		widenTo(line, a.at(row0, k0+i), a.dtype)
		for r, x := range line {
			*(*float32)(unsafe.Add(block, r*rowBytes+i*4)) = x
		}
	}
}

func (f32AVX2) unpack(dst, p unsafe.Pointer, k int) { unpackPlain(dst, p, k) }

func (u f32AVX2) packB(p, tmp unsafe.Pointer, b operand, col0, cols, k0, k int) {
	dst := unsafe.Slice((*float32)(p), roundUp(k, 32)*panel)
	clear(dst)
	if w := b.packed; w != nil {
		src := unsafe.Slice((*float32)(pointer(w.Buf.Host)), panels(w.N)*u.panelBytes(w.K)/4)
		for i := range k {
			from := src[i/panel*u.panelBytes(w.K)/4+i%panel:]
			for c := range cols {
				dst[i*panel+c] = from[(col0+c)*panel]
			}
		}
		return
	}
	done := packingF32.whole(p, b, col0, cols, k0, k)
	b.blocks(tmp, col0, cols, k0+done, k-done, func(i, c int, x float32) { dst[(done+i)*panel+c] = x })
}

var f32AVX2Rows = [7]func(*block){nil, f32AVX2Rows1, f32AVX2Rows2, f32AVX2Rows3, f32AVX2Rows4, f32AVX2Rows5, f32AVX2Rows6}

func (f32AVX2) run(b *block, rows, at, k int) {
	b.a += uintptr(at * 4)
	b.steps = k
	b.aheadBytes *= 2 // a kernel prefetches once for four steps of each half
	b.over(rows, 6, f32AVX2Rows[:])
}

// wideAVX2 is MathBF16, on the panels of path AVX512.
type wideAVX2 struct{ f32AVX2 }

func (wideAVX2) form() int            { return formPaired }
func (wideAVX2) panelBytes(k int) int { return roundUp(k, 32) * panel * 2 }
func (wideAVX2) grain() int           { return 32 }
func (wideAVX2) chunk() int           { return 256 }
func (wideAVX2) reads(operand) bool   { return false }

func (u wideAVX2) packA(block, tmp unsafe.Pointer, rowBytes int, a operand, row0, rows, k0, k, at int) {
	u.f32AVX2.packA(block, tmp, rowBytes, a, row0, rows, k0, k, at)
	for r := range rows {
		row := unsafe.Slice((*float32)(unsafe.Add(block, r*rowBytes+at*4)), roundUp(k, 32))
		clear(row[k:])
		if a.dtype == kernels.F32 {
			roundAVX2(pointer(row), pointer(row), len(row)/8)
		}
	}
}

func (wideAVX2) unpack(dst, p unsafe.Pointer, k int) { unpackPaired(dst, p, k) }

func (u wideAVX2) packB(p, tmp unsafe.Pointer, b operand, col0, cols, k0, k int) {
	dst := unsafe.Slice((*uint16)(p), roundUp(k, 32)*panel)
	clear(dst)
	if w := b.packed; w != nil {
		src := unsafe.Slice((*uint16)(pointer(w.Buf.Host)), panels(w.N)*u.panelBytes(w.K)/2)
		for i := range k {
			from := src[i/panel*u.panelBytes(w.K)/2:]
			for c := range cols {
				dst[paired(i, c)] = from[paired(col0+c, i%panel)]
			}
		}
		return
	}
	done := packingBF16.whole(p, b, col0, cols, k0, k)
	b.blocks(tmp, col0, cols, k0+done, k-done, func(i, c int, x float32) { dst[paired(done+i, c)] = ref.ToBF16(x) })
}

var wideAVX2Rows = [7]func(*block){nil, wideAVX2Rows1, wideAVX2Rows2, wideAVX2Rows3, wideAVX2Rows4, wideAVX2Rows5, wideAVX2Rows6}

func (wideAVX2) run(b *block, rows, at, k int) {
	b.a += uintptr(at * 4)
	b.steps = (k + 31) / 32
	b.aheadBytes /= 2 // a kernel prefetches in steps of both halves
	b.over(rows, 6, wideAVX2Rows[:])
}

// blocks calls put for every k and column of a panel, in an order that keeps reads and writes near.
func (o operand) blocks(tmp unsafe.Pointer, col0, cols, k0, k int, put func(k, c int, x float32)) {
	if o.across {
		row := unsafe.Slice((*float32)(tmp), cols)
		for i := range k {
			widenTo(row, o.at(col0, k0+i), o.dtype)
			for c, x := range row {
				put(i, c, x)
			}
		}
		return
	}
	line := unsafe.Slice((*float32)(tmp), 64)
	for done := 0; done < k; done += len(line) {
		part := line[:min(len(line), k-done)]
		for c := range cols {
			widenTo(part, o.at(col0+c, k0+done), o.dtype)
			for i, x := range part {
				put(done+i, c, x)
			}
		}
	}
}
