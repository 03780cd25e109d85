//go:build arm64 && !noasm

package gemm

import (
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// widenTo widens numbers that lie side by side.
func widenTo(dst []float32, p unsafe.Pointer, d kernels.DType) {
	if d == kernels.F32 {
		copy(dst, unsafe.Slice((*float32)(p), len(dst)))
		return
	}
	whole := len(dst) / 8
	if whole > 0 {
		widenNEON(pointer(dst), p, whole)
	}
	src := unsafe.Slice((*uint16)(p), len(dst))
	for i := whole * 8; i < len(dst); i++ {
		dst[i] = ref.FromBF16(src[i])
	}
}

// linesNEON packs lines of an operand as rows of fp32, in the order of k.
func linesNEON(block, tmp unsafe.Pointer, rowBytes int, a operand, row0, rows, k0, k int) {
	if !a.across {
		for r := range rows {
			widenTo(unsafe.Slice((*float32)(unsafe.Add(block, r*rowBytes)), k), a.at(row0+r, k0), a.dtype)
		}
		return
	}
	// Four k at a time: their numbers side by side in tmp, or where they are.
	const most = 1024
	for r0 := 0; r0 < rows; r0 += most {
		n := min(most, rows-r0)
		for i := 0; i < k; i += 4 {
			some := min(4, k-i)
			src, stride := a.at(row0+r0, k0+i), a.stride
			if a.dtype != kernels.F32 || some < 4 || n%4 != 0 {
				src, stride = tmp, most*4
				for j := range some {
					widenTo(unsafe.Slice((*float32)(unsafe.Add(tmp, j*stride)), n), a.at(row0+r0, k0+i+j), a.dtype)
				}
			}
			to := unsafe.Add(block, r0*rowBytes+i*4)
			whole := 0
			if some == 4 {
				whole = n / 4 * 4
			}
			if whole > 0 {
				turnNEON(to, src, rowBytes, stride, 4*rowBytes, 16, whole/4)
			}
			for r := whole; r < n; r++ {
				for j := range some {
					*(*float32)(unsafe.Add(to, r*rowBytes+j*4)) = *(*float32)(unsafe.Add(src, j*stride+r*4))
				}
			}
		}
	}
}

// columnsNEON packs columns of an operand into rows of 32 fp32, zeros where columns lack.
func columnsNEON(p, tmp unsafe.Pointer, b operand, col0, cols, k0, k int) {
	if b.across {
		for i := range k {
			row := unsafe.Slice((*float32)(unsafe.Add(p, i*panel*4)), panel)
			widenTo(row[:cols], b.at(col0, k0+i), b.dtype)
			clear(row[cols:])
		}
		return
	}
	if cols < panel {
		clear(unsafe.Slice((*float32)(p), k*panel))
	}
	const most = 1024
	for c := 0; c < cols; c += 4 {
		some := min(4, cols-c)
		for done := 0; done < k; done += most {
			n := min(most, k-done)
			src, stride := b.at(col0+c, k0+done), b.stride
			if b.dtype != kernels.F32 || some < 4 || n%4 != 0 {
				src, stride = tmp, most*4
				for j := range some {
					widenTo(unsafe.Slice((*float32)(unsafe.Add(tmp, j*stride)), n), b.at(col0+c+j, k0+done), b.dtype)
				}
			}
			to := unsafe.Add(p, done*panel*4+c*4)
			whole := 0
			if some == 4 {
				whole = n / 4 * 4
			}
			if whole > 0 {
				turnNEON(to, src, panel*4, stride, 4*panel*4, 16, whole/4)
			}
			for i := whole; i < n; i++ {
				for j := range some {
					*(*float32)(unsafe.Add(to, i*panel*4+j*4)) = *(*float32)(unsafe.Add(src, j*stride+i*4))
				}
			}
		}
	}
}

// turnedNEON packs columns of a packed weight's transpose, 32 x 32 at a time; unpack reads
// the 32 columns of a panel at a k as fp32.
func turnedNEON(p unsafe.Pointer, col0, cols, k int, unpack func(dst unsafe.Pointer, panel, k int)) {
	var block [panel * panel]float32
	for i := 0; i < k; i += panel {
		for c := range cols {
			unpack(unsafe.Pointer(&block[c*panel]), i/panel, col0+c)
		}
		for c := 0; c < panel; c += 4 {
			turnNEON(unsafe.Add(p, i*panel*4+c*4), unsafe.Pointer(&block[c*panel]), panel*4, panel*4, 4*panel*4, 16, panel/4)
		}
	}
}
