//go:build (amd64 || arm64) && !noasm

package gemm

import (
	mathbits "math/bits"
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

// The layouts of packed panels of 32 columns, as a kernels.Packed is marked with them.
const (
	formPaired = iota + 1 // bf16, k paired
	formPanels            // fp32
	formTiles             // bf16, k in its order by pairs
	formNarrow            // bf16, k in its order
	formWide              // bf16 numbers as fp32
)

// apart avoids distances of rows that are multiples of 1 KiB, which would put a block's rows into
// few sets of L1.
func apart(n int) int {
	if n%1024 == 0 {
		n += 64
	}
	return n
}

// over runs a block kernel over rows in blocks as equal as they can be: of one size,
// then of one less.
func (b *block) over(rows, most int, kernel []func(*block)) {
	n := (rows + most - 1) / most
	size, larger := rows/n, rows%n
	b.aheadStep = uintptr(roundUp(b.aheadBytes/(n*b.steps), 64))
	for i := range 2 {
		count := larger
		if i == 1 {
			count = n - larger
		}
		if count == 0 {
			continue
		}
		s := size + 1 - i
		b.blocks = count
		kernel[s](b)
		b.a += uintptr(count*s) * b.lda
		b.c += uintptr(count * s * panel * 4)
		b.ahead += uintptr(count*b.steps) * b.aheadStep
	}
}

// Passes over rows narrower than a panel, for paths whose assembly takes whole rows alone.

func combinePass(f func(a, b float32) float32, d kernels.DType) pass {
	return func(c, src unsafe.Pointer, stride, rows int, columns uint32) {
		n := mathbits.Len32(columns)
		o := operand{p: src, dtype: d, size: d.Size(), stride: stride}
		var row [panel]float32
		for r := range rows {
			widenTo(row[:n], o.at(r, 0), d)
			x := unsafe.Slice((*float32)(unsafe.Add(c, r*panel*4)), panel)
			for i, y := range row[:n] {
				x[i] = f(x[i], y)
			}
		}
	}
}

func storeGo(d kernels.DType) storePass {
	return func(c, dst unsafe.Pointer, stride, rows int, columns uint32, bias unsafe.Pointer) {
		n := mathbits.Len32(columns)
		b := unsafe.Slice((*float32)(bias), n)
		for r := range rows {
			x := unsafe.Slice((*float32)(unsafe.Add(c, r*panel*4)), n)
			to := unsafe.Add(dst, r*stride)
			for i, v := range x {
				if v = ref.Add(v, b[i]); d == kernels.F32 {
					*(*float32)(unsafe.Add(to, i*4)) = v
				} else {
					*(*uint16)(unsafe.Add(to, i*2)) = ref.ToBF16(v)
				}
			}
		}
	}
}
