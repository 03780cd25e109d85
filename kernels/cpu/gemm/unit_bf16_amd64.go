//go:build amd64 && !noasm

package gemm

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
)

// bf16Unit is MathBF16 on path BF16. Its panels serve AVX512 and AVX2 too.
type bf16Unit struct{}

// formPaired marks panels of 32 columns, k paired; formPanels panels of fp32.
const (
	formPaired = 1
	formPanels = 2
)

func (bf16Unit) form() int            { return formPaired }
func (bf16Unit) step() int            { return 32 }
func (bf16Unit) panelBytes(k int) int { return roundUp(k, 32) * panel * 2 }
func (bf16Unit) rows() int            { return 6 }
func (bf16Unit) chunk() int           { return 256 }
func (bf16Unit) passes() *passes      { return &passes512 }

// rowBytes avoids multiples of 1 KiB, which would put a block's rows into few sets of L1.
func (bf16Unit) rowBytes(k int) int {
	n := roundUp(k, 32) * 2
	if n%1024 == 0 {
		n += 64
	}
	return n
}

func (bf16Unit) packA(block, tmp unsafe.Pointer, rowBytes int, a operand, row0, rows, k0, k, at int) {
	dst := unsafe.Add(block, at*2)
	if !a.across {
		pairRows(dst, a.at(row0, k0), rowBytes, a.stride, rows, k, a.dtype)
		return
	}
	const most = 512 // k that fit tmp with a tail's rows behind them
	for done := 0; done < k; done += most {
		n := min(most, k-done)
		for r := 0; r < rows; r += 32 {
			weave(tmp, unsafe.Add(tmp, most*64), a, row0+r, min(32, rows-r), k0+done, n)
			for h := 0; h < 2 && r+h*16 < rows; h++ {
				transpose16(unsafe.Add(dst, (r+h*16)*rowBytes+done*2), unsafe.Add(tmp, h*64), rowBytes, 128, 64, 2048, (n+31)/32)
			}
		}
	}
}

func (u bf16Unit) packB(p, tmp unsafe.Pointer, b operand, col0, cols, k0, k int) {
	switch {
	case b.packed != nil:
		repack(p, tmp, b.packed, col0, k)
	case b.across:
		weave(p, tmp, b, col0, cols, k0, k)
	default:
		for h := range 2 {
			n := max(0, min(16, cols-16*h))
			half, full := unsafe.Add(p, h*64), 0
			if n == 16 && b.dtype == kernels.BF16 {
				if full = k &^ 31; full > 0 {
					transposePaired16(half, b.at(col0+16*h, k0), 128, b.stride, 2048, 64, full/32)
				}
			}
			if full == k {
				continue
			}
			pairedTiles(unsafe.Add(half, full*64), tmp, b, col0+16*h, n, k0+full, k-full)
		}
	}
}

// pairedTiles packs up to 16 lines, with zeros for those that lack, by way of tmp.
func pairedTiles(half, tmp unsafe.Pointer, b operand, line, n, k0, k int) {
	const most = 512
	if n < 16 {
		clear(unsafe.Slice((*byte)(tmp), 16*most*2))
	}
	for done := 0; done < k; done += most {
		length := min(most, k-done)
		if n > 0 {
			pairRows(tmp, b.at(line, k0+done), most*2+64, b.stride, n, length, b.dtype)
		}
		transpose16(unsafe.Add(half, done*64), tmp, 128, most*2+64, 2048, 64, (length+31)/32)
	}
}

func pairRows(dst, src unsafe.Pointer, dstStride, srcStride, rows, k int, d kernels.DType) {
	if d == kernels.F32 {
		pairRowsF32(dst, src, dstStride, srcStride, rows, k)
	} else {
		pairRowsBF16(dst, src, dstStride, srcStride, rows, k)
	}
}

// weave packs columns that lie across k; the rows of a last, partial step pass by tmp.
func weave(dst, tmp unsafe.Pointer, b operand, col0, cols, k0, k int) {
	one := func(dst, src unsafe.Pointer, stride, steps int) {
		if b.dtype == kernels.F32 {
			weaveF32(dst, src, stride, steps, bits(cols))
		} else {
			weaveBF16(dst, src, stride, steps, bits(cols))
		}
	}
	if full := k / 32; full > 0 {
		one(dst, b.at(col0, k0), b.stride, full)
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
func repack(p, tmp unsafe.Pointer, w *kernels.Packed, col0, k int) {
	src := unsafe.Add(pointer(w.Buf.Host), col0*64)
	size := bf16Unit{}.panelBytes(w.K)
	const most = 8 // blocks in tmp
	for i := 0; i < panels(k); i += most {
		n := min(most, panels(k)-i)
		unweave(tmp, unsafe.Add(src, i*size), size, n)
		for h := range 2 {
			transpose16(unsafe.Add(p, i*2048+h*64), unsafe.Add(tmp, h*1024), 128, 64, 2048, 2048, n)
		}
	}
}

var bf16Rows = [7]func(*block){nil, bf16Rows1, bf16Rows2, bf16Rows3, bf16Rows4, bf16Rows5, bf16Rows6}

func (bf16Unit) run(b *block, rows, at, k int) {
	b.a += uintptr(at * 2)
	b.steps = (k + 31) / 32
	b.over(rows, 6, bf16Rows[:])
}
