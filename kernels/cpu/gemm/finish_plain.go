//go:build (amd64 || arm64) && !noasm

package gemm

import (
	mathbits "math/bits"
	"unsafe"

	"github.com/darkroom-rl/darkroom/kernels"
	"github.com/darkroom-rl/darkroom/kernels/ref"
)

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
