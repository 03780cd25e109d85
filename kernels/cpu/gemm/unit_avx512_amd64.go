//go:build amd64 && !noasm

package gemm

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
)

// f32Unit is MathF32 on path AVX512 and up.
type f32Unit struct{ finish *passes }

func (f32Unit) form() int                     { return formPanels }
func (f32Unit) step() int                     { return 32 }
func (f32Unit) panelBytes(k int) int          { return roundUp(k, 32) * panel * 4 }
func (f32Unit) rows() int                     { return 14 }
func (f32Unit) chunk() int                    { return 384 }
func (u f32Unit) direct(d kernels.DType) bool { return d == kernels.F32 || u.finish == passesBF16 }
func (u f32Unit) passes() *passes             { return u.finish }
func (f32Unit) reads(a operand) bool          { return a.inPlace() }

func (f32Unit) rowBytes(k int) int { return apart(roundUp(k, 32) * 4) }

func (f32Unit) packA(block, tmp unsafe.Pointer, rowBytes int, a operand, row0, rows, k0, k, at int) {
	dst := unsafe.Add(block, at*4)
	if !a.across {
		copyRows(dst, a.at(row0, k0), rowBytes, a.stride, rows, k, a.dtype)
		return
	}
	const most = 512
	for done := 0; done < k; done += most {
		n := min(most, k-done)
		for r := 0; r < rows; r += 32 {
			columns := min(32, rows-r)
			if a.dtype == kernels.F32 && columns == 32 && n%16 == 0 {
				for h := range 2 {
					transpose16(unsafe.Add(dst, (r+h*16)*rowBytes+done*4), a.at(row0+r+h*16, k0+done), rowBytes, a.stride, 64, 16*a.stride, n/16)
				}
				continue
			}
			panelRows(tmp, a.at(row0+r, k0+done), a.stride, n, columns, a.dtype)
			for h := 0; h*16 < columns; h++ {
				transpose16(unsafe.Add(dst, (r+h*16)*rowBytes+done*4), unsafe.Add(tmp, h*64), rowBytes, 128, 64, 2048, (n+15)/16)
			}
		}
	}
}

func (f32Unit) unpack(dst, p unsafe.Pointer, k int) { unpackPlain(dst, p, k) }

// unpackPlain reads the 32 columns at k of a panel of fp32.
func unpackPlain(dst, p unsafe.Pointer, k int) {
	*(*[panel]float32)(dst) = *(*[panel]float32)(unsafe.Add(p, k*panel*4))
}

func (u f32Unit) packB(p, tmp unsafe.Pointer, b operand, col0, cols, k0, k int) {
	switch {
	case b.packed != nil:
		// Turn the 32 x 32 blocks of the forward panels over.
		size := u.panelBytes(b.packed.K)
		src := unsafe.Add(pointer(b.packed.Buf.Host), col0*128)
		for i := range 4 {
			h, v := i%2, i/2 // half of the columns, half of k
			transpose16(unsafe.Add(p, h*64+v*16*128), unsafe.Add(src, h*16*128+v*64), 128, 128, 32*128, size, panels(k))
		}
	case b.across:
		panelRows(p, b.at(col0, k0), b.stride, k, cols, b.dtype)
		clear(unsafe.Slice((*float32)(p), roundUp(k, 32)*panel)[k*panel:])
	default:
		for h := range 2 {
			n := max(0, min(16, cols-16*h))
			half, full := unsafe.Add(p, h*64), 0
			if n == 16 && b.dtype == kernels.F32 {
				if full = k &^ 31; full > 0 {
					transpose16(half, b.at(col0+16*h, k0), 128, b.stride, 2048, 64, full/16)
				}
			}
			if full == k {
				continue
			}
			u.tiles(unsafe.Add(half, full*128), tmp, b, col0+16*h, n, k0+full, k-full)
		}
	}
}

// tiles packs up to 16 lines, zeros for those and for k that lack, by way of tmp.
func (f32Unit) tiles(half, tmp unsafe.Pointer, b operand, line, n, k0, k int) {
	const most = 256
	const row = most*4 + 64
	for done := 0; done < k; done += most {
		length := min(most, k-done)
		if n < 16 || length%32 != 0 {
			clear(unsafe.Slice((*byte)(tmp), 16*row))
		}
		if n > 0 {
			copyRows(tmp, b.at(line, k0+done), row, b.stride, n, length, b.dtype)
		}
		transpose16(unsafe.Add(half, done*128), tmp, 128, row, 2048, 64, roundUp(length, 32)/16)
	}
}

func copyRows(dst, src unsafe.Pointer, dstStride, srcStride, rows, k int, d kernels.DType) {
	if d == kernels.BF16 {
		widenRows(dst, src, dstStride, srcStride, rows, k)
		return
	}
	for r := range rows {
		copy(unsafe.Slice((*float32)(unsafe.Add(dst, r*dstStride)), k), unsafe.Slice((*float32)(unsafe.Add(src, r*srcStride)), k))
	}
}

func panelRows(dst, src unsafe.Pointer, stride, k, columns int, d kernels.DType) {
	if d == kernels.BF16 {
		panelRowsBF16(dst, src, stride, k, bits(columns))
	} else {
		panelRowsF32(dst, src, stride, k, bits(columns))
	}
}

func (f32Unit) grain() int { return 1 }

var (
	f32Rows = [15]func(*block){nil, f32Rows1, f32Rows2, f32Rows3, f32Rows4, f32Rows5, f32Rows6, f32Rows7,
		f32Rows8, f32Rows9, f32Rows10, f32Rows11, f32Rows12, f32Rows13, f32Rows14}
	f32Narrow = [15]func(*block){nil, f32Narrow1, f32Narrow2, f32Narrow3, f32Narrow4, f32Narrow5, f32Narrow6, f32Narrow7,
		f32Narrow8, f32Narrow9, f32Narrow10, f32Narrow11, f32Narrow12, f32Narrow13, f32Narrow14}
)

func (u f32Unit) run(b *block, rows, at, k int) {
	b.a += uintptr(at * 4)
	b.steps = k
	b.aheadBytes *= 4 // a kernel prefetches once for four steps
	if b.narrow {
		b.over(rows, 14, f32Narrow[:])
	} else {
		b.over(rows, 14, f32Rows[:])
	}
}

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
func (wideUnit) reads(operand) bool        { return false }
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

// bf16Unit is MathBF16 on path BF16: A is packed like B, row by row.
type bf16Unit struct{ pairedPanels }

func newBF16Unit() unit {
	return bf16Unit{pairedPanels{pairF32: pairRowsF32, weaveF32: weaveF32,
		pairBF16: pairRowsBF16, weaveBF16: weaveBF16, unweave: unweave, turn: transposePaired16}}
}

func (bf16Unit) rows() int                 { return 6 }
func (bf16Unit) chunk() int                { return 384 }
func (bf16Unit) passes() *passes           { return passesBF16 }
func (bf16Unit) direct(kernels.DType) bool { return true }
func (bf16Unit) reads(operand) bool        { return false }
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
